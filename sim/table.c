/* SPDX-License-Identifier: MIT */

/* One run in words and in JSON: its summary, and the options that repeat it. */

#include "sim/report.h"

#include <inttypes.h>
#include <stdlib.h>

static void write_bits(const char *const *names, unsigned bits, FILE *out)
{
    const char *between = "";
    for (unsigned i = 0; names[i]; i++) {
        if (bits >> i & 1) {
            fprintf(out, "%s%s", between, names[i]);
            between = ", ";
        }
    }
    if (!*between)
        fputs("nothing", out);
}

void mare_sim_write_promises(unsigned bits, FILE *out)
{
    static const char *const names[] = {"EM1",        "EM2",         "EM3",    "fencing",
                                        "one leader", "FIFO",        "causal", "total",
                                        "atomic",     "agreed time", NULL};
    write_bits(names, bits, out);
}

void mare_sim_write_tolerates(unsigned bits, FILE *out)
{
    static const char *const names[] = {
        "any order", "loss",           "duplication",     "partitions",
        "crashes",   "loss of memory", "a crash of all",  "pauses",
        "drift",     "churn",          "false suspicion", NULL};
    write_bits(names, bits, out);
}

/* One run ------------------------------------------------------------------------------------ */

static void write_kinds(const mare_sim_options *options, const mare_sim_outcome *outcome, FILE *out)
{
    const mare_coord_form *forms = options->setup.algorithm->forms;
    const char *between = " (";
    for (unsigned i = 0; forms[i].name; i++) {
        if (outcome->by_kind[i]) {
            fprintf(out, "%s%" PRIu64 " %s", between, outcome->by_kind[i], forms[i].name);
            between = ", ";
        }
    }
    fputs(*between == ',' ? ")\n" : "\n", out);
}

static void write_entries(const mare_sim_options *options, const mare_sim_outcome *outcome,
                          FILE *out)
{
    mare_coord_cost cost;
    double grants = (double)outcome->grants;
    fprintf(out, "entries   %" PRIu64 " of %" PRIu64 " requests", outcome->grants,
            outcome->requests);
    if (outcome->revoked)
        fprintf(out, ", %" PRIu64 " given up or revoked", outcome->revoked);
    fputc('\n', out);
    if (!outcome->grants)
        return;
    mare_coord_cost_of(&options->setup, &cost);
    fprintf(out, "an entry  %.2f messages", (double)outcome->sent / grants);
    if (cost.messages_most > 0) { /* an algorithm in Lua need not say what it costs */
        fprintf(out, "; the formula %s", cost.formula);
        if (cost.messages_least == cost.messages_most)
            fprintf(out, ", without faults or rivals, gives %" PRIu64, cost.messages_least);
    }
    fputc('\n', out);
    fprintf(out, "waiting   %.2f ms on average, %.2f ms at most\n",
            (double)outcome->wait_us / grants / 1000, (double)outcome->wait_most_us / 1000);
}

unsigned mare_sim_kept(const mare_sim_options *options, const mare_sim_outcome *outcome)
{
    unsigned promises = options->setup.algorithm->promises(&options->setup);
    unsigned open = outcome->waiting ? MARE_COORD_EM2 : 0;
    unsigned unchecked = options->no_vectors ? MARE_COORD_EM3 : 0; /* check_mutex.c needs them */
    return promises & ~open & ~unchecked;
}

static void write_kept(const mare_sim_options *options, const mare_sim_outcome *outcome, FILE *out)
{
    unsigned kept = mare_sim_kept(options, outcome);
    unsigned rest = options->setup.algorithm->promises(&options->setup) & ~kept;
    fputs("promises  ", out);
    mare_sim_write_promises(kept, out);
    fputs(": kept\n", out);
    if (rest & MARE_COORD_EM3)
        fputs("          EM3: not checked, of so many no happened-before is kept\n", out);
    if (rest & MARE_COORD_EM2)
        fprintf(out, "          EM2: not known, %" PRIu64 " still waited at the end\n",
                outcome->waiting);
}

void mare_sim_write_summary(const mare_sim_options *options, const mare_sim_outcome *outcome,
                            FILE *out)
{
    fprintf(out, "time      %.3f ms, virtual\n", (double)outcome->time_us / 1000);
    fprintf(out, "messages  %" PRIu64 " sent", outcome->sent);
    write_kinds(options, outcome, out);
    fprintf(out, "          %" PRIu64 " delivered, %" PRIu64 " lost, %" PRIu64 " duplicated\n",
            outcome->delivered, outcome->lost, outcome->duplicated);
    if (options->setup.algorithm->family == MARE_COORD_MUTEX)
        write_entries(options, outcome, out);
    if (outcome->elections)
        fprintf(out, "elected   %" PRIu64 " times, counted at each member\n", outcome->elections);
    if (outcome->deliveries)
        fprintf(out, "delivered %" PRIu64 " multicasts, counted at each member\n",
                outcome->deliveries);
    if (outcome->violation[0])
        fprintf(out, "VIOLATED  %s: %s\n", outcome->violation, outcome->detail);
    else
        write_kept(options, outcome, out);
}

static char *faults_text(const mare_sim_options *options)
{
    size_t length = mare_sim_faults_write(&options->faults, NULL, 0);
    char *text = malloc(length + 1);
    if (text)
        mare_sim_faults_write(&options->faults, text, length + 1);
    return text;
}

void mare_sim_write_replay(const mare_sim_options *options, FILE *out)
{
    char *faults = faults_text(options);
    const mare_coord_algorithm *algorithm = options->setup.algorithm;
    fprintf(out,
            "--n %" PRIu32 " --seed %" PRIu64 " --loss %" PRIu32 " --duplicate %" PRIu32
            " --abandon %" PRIu32 " --drift %" PRIu32 " --faults '%s'",
            options->setup.members, options->seed, options->network.loss_ppm,
            options->network.duplicate_ppm, options->abandon_ppm, options->drift_ppm,
            faults ? faults : "");
    if (options->profile != MARE_SIM_USUAL)
        fprintf(out, " --profile %s", mare_sim_profile_name(options->profile));
    if (options->rounds)
        fprintf(out, " --rounds %" PRIu32, options->rounds);
    for (int i = 0; i < MARE_COORD_PARAMS && algorithm->params[i].name; i++) {
        if (options->setup.param[i] != algorithm->params[i].initial)
            fprintf(out, " --param %s=%" PRId64, algorithm->params[i].name,
                    options->setup.param[i]);
    }
    free(faults);
}

/* JSON --------------------------------------------------------------------------------------- */

void mare_sim_write_quoted(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 32)
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static void write_json_setup(const mare_sim_options *options, FILE *out)
{
    const mare_coord_algorithm *algorithm = options->setup.algorithm;
    char *faults = faults_text(options);
    fputs("{\"algorithm\":", out);
    mare_sim_write_quoted(algorithm->name, out);
    fprintf(out, ",\"n\":%" PRIu32 ",\"seed\":%" PRIu64 ",\"params\":{", options->setup.members,
            options->seed);
    for (int i = 0; i < MARE_COORD_PARAMS && algorithm->params[i].name; i++)
        fprintf(out, "%s\"%s\":%" PRId64, i ? "," : "", algorithm->params[i].name,
                options->setup.param[i]);
    fputs("},\"faults\":", out);
    mare_sim_write_quoted(faults ? faults : "", out);
    fprintf(out, ",\"loss_ppm\":%" PRIu32 ",\"duplicate_ppm\":%" PRIu32, options->network.loss_ppm,
            options->network.duplicate_ppm);
    free(faults);
}

void mare_sim_write_json(const mare_sim_options *options, const mare_sim_outcome *outcome,
                         FILE *out)
{
    const mare_coord_algorithm *algorithm = options->setup.algorithm;
    write_json_setup(options, out);
    fprintf(out,
            ",\"time_us\":%" PRIu64 ",\"steps\":%" PRIu64 ",\"sent\":%" PRIu64
            ",\"delivered\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"duplicated\":%" PRIu64,
            outcome->time_us, outcome->steps, outcome->sent, outcome->delivered, outcome->lost,
            outcome->duplicated);
    fprintf(out,
            ",\"requests\":%" PRIu64 ",\"grants\":%" PRIu64 ",\"revoked\":%" PRIu64
            ",\"elections\":%" PRIu64 ",\"deliveries\":%" PRIu64 ",\"wait_us\":%" PRIu64
            ",\"wait_most_us\":%" PRIu64 ",\"waiting\":%" PRIu64,
            outcome->requests, outcome->grants, outcome->revoked, outcome->elections,
            outcome->deliveries, outcome->wait_us, outcome->wait_most_us, outcome->waiting);
    fputs(",\"by_kind\":{", out);
    for (unsigned i = 0; algorithm->forms[i].name; i++)
        fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", algorithm->forms[i].name,
                outcome->by_kind[i]);
    mare_coord_cost cost;
    mare_coord_cost_of(&options->setup, &cost);
    fputs("},\"formula\":", out);
    mare_sim_write_quoted(cost.formula, out);
    fprintf(out, ",\"formula_messages\":%" PRIu64 ",\"violation\":",
            algorithm->messages(&options->setup));
    if (outcome->violation[0]) {
        mare_sim_write_quoted(outcome->violation, out);
        fputs(",\"detail\":", out);
        mare_sim_write_quoted(outcome->detail, out);
    } else {
        fputs("null", out);
    }
    fputs("}\n", out);
}
