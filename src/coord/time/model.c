/* SPDX-License-Identifier: MIT */

/* The model of a clock: frequency, skew, offset, maximum drift rate. Tanenbaum and Van Steen,
 * "Distributed Systems", 6.1.3. */

#include "coord/time/fixed.h"

int64_t mare_time_model_offset(const mare_time_model *model, int64_t true_ns)
{
    return model->offset_ns + mare__part(true_ns, model->skew_ppb);
}

int64_t mare_time_model_read(const mare_time_model *model, int64_t true_ns)
{
    return true_ns + mare_time_model_offset(model, true_ns);
}

int mare_time_model_in_spec(const mare_time_model *model)
{
    return mare__size(model->skew_ppb) <= model->drift_ppb;
}

int64_t mare_time_skew_ppb(uint64_t nominal, uint64_t actual)
{
    uint64_t apart = actual > nominal ? actual - nominal : nominal - actual;
    if (nominal == 0)
        return 0;
    if (nominal > INT64_MAX) {
        nominal /= 2;
        apart /= 2;
    }
    int64_t size = apart > INT64_MAX ? INT64_MAX : (int64_t)apart;
    return mare__mul_div(actual > nominal ? size : -size, MARE_TIME_SECOND, nominal);
}

uint64_t mare_time_apart_ns(uint64_t drift_ppb, uint64_t elapsed_ns)
{
    return mare__part_up(elapsed_ns, 2 * drift_ppb);
}

/* δ × 10^9 / 2ρ without overflow: the quotient, then its fraction. */
uint64_t mare_time_resync_ns(uint64_t drift_ppb, uint64_t apart_ns)
{
    uint64_t twice = 2 * drift_ppb;
    if (twice == 0 || apart_ns / twice > UINT64_MAX / MARE__PPB - 1)
        return UINT64_MAX;
    return apart_ns / twice * MARE__PPB + apart_ns % twice * MARE__PPB / twice;
}
