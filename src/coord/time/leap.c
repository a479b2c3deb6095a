/* SPDX-License-Identifier: MIT */

/* TAI and UTC. TAI counts seconds; UTC counts them too, but now and then the IERS lets a minute
 * have 61 of them, so that noon stays where the sun is. POSIX and NTP count UTC as if every day had
 * 86,400: the number of 23:59:59 is given twice in such a night (or, should a second ever be left
 * out, not at all). So a clock that must not step or repeat runs on TAI, and UTC is looked up. */

#include "coord/time/fixed.h"

#define DAY_S 86400
#define EXPIRES_S INT64_C(1814140800) /* 28 Jun 2027: the IERS' list as of tzdata 2026f */

static const mare_time_leap known[] = {
    {63072000, 10},   /* 1 Jan 1972 */
    {78796800, 11},   /* 1 Jul 1972 */
    {94694400, 12},   /* 1 Jan 1973 */
    {126230400, 13},  /* 1 Jan 1974 */
    {157766400, 14},  /* 1 Jan 1975 */
    {189302400, 15},  /* 1 Jan 1976 */
    {220924800, 16},  /* 1 Jan 1977 */
    {252460800, 17},  /* 1 Jan 1978 */
    {283996800, 18},  /* 1 Jan 1979 */
    {315532800, 19},  /* 1 Jan 1980 */
    {362793600, 20},  /* 1 Jul 1981 */
    {394329600, 21},  /* 1 Jul 1982 */
    {425865600, 22},  /* 1 Jul 1983 */
    {489024000, 23},  /* 1 Jul 1985 */
    {567993600, 24},  /* 1 Jan 1988 */
    {631152000, 25},  /* 1 Jan 1990 */
    {662688000, 26},  /* 1 Jan 1991 */
    {709948800, 27},  /* 1 Jul 1992 */
    {741484800, 28},  /* 1 Jul 1993 */
    {773020800, 29},  /* 1 Jul 1994 */
    {820454400, 30},  /* 1 Jan 1996 */
    {867715200, 31},  /* 1 Jul 1997 */
    {915148800, 32},  /* 1 Jan 1999 */
    {1136073600, 33}, /* 1 Jan 2006 */
    {1230768000, 34}, /* 1 Jan 2009 */
    {1341100800, 35}, /* 1 Jul 2012 */
    {1435708800, 36}, /* 1 Jul 2015 */
    {1483228800, 37}, /* 1 Jan 2017 */
};

const mare_time_leaps *mare_time_leaps_known(void)
{
    static const mare_time_leaps table = {known, sizeof known / sizeof *known, EXPIRES_S};
    return &table;
}

/* Nanoseconds to seconds, downwards: the second that an instant lies in. */
static int64_t second_of(int64_t ns)
{
    return ns / MARE_TIME_SECOND - (ns % MARE_TIME_SECOND < 0);
}

int mare_time_leaps_expired(const mare_time_leaps *leaps, int64_t utc_ns)
{
    return second_of(utc_ns) >= leaps->expires_s;
}

static int32_t ahead_at(const mare_time_leaps *leaps, uint32_t index)
{
    if (leaps->count == 0)
        return 0;
    return leaps->entry[index < leaps->count ? index : leaps->count - 1].tai_ahead_s;
}

int64_t mare_time_tai_from_utc(const mare_time_leaps *leaps, int64_t utc_ns)
{
    uint32_t at = 0;
    while (at + 1 < leaps->count && second_of(utc_ns) >= leaps->entry[at + 1].utc_s)
        at++;
    return utc_ns + ahead_at(leaps, at) * MARE_TIME_SECOND;
}

int64_t mare_time_utc_from_tai(const mare_time_leaps *leaps, int64_t tai_ns, int *leap)
{
    int inside = 0;
    uint32_t at = 0;
    int64_t tai_s = second_of(tai_ns);
    for (uint32_t i = 1; i < leaps->count; i++) {
        int64_t before = leaps->entry[i].utc_s + ahead_at(leaps, i - 1);
        int64_t after = leaps->entry[i].utc_s + ahead_at(leaps, i);
        if (tai_s >= after)
            at = i;
        inside = inside || (tai_s >= before && tai_s < after);
    }
    if (leap)
        *leap = inside;
    /* Inside the inserted second the old difference would give 00:00:00: one less is 23:59:59. */
    return tai_ns - (ahead_at(leaps, at) + inside) * MARE_TIME_SECOND;
}

int mare_time_leap_near(const mare_time_leaps *leaps, int64_t utc_ns, int64_t near_ns)
{
    for (uint32_t i = 1; i < leaps->count; i++) {
        int64_t from_ns = utc_ns - leaps->entry[i].utc_s * MARE_TIME_SECOND;
        if (mare__size(from_ns) <= (uint64_t)near_ns)
            return 1;
    }
    return 0;
}

/* The number of a day's month, counted from the March before year 0: in years that begin in March
 * the day that is put in comes last, and months of 31, 30, 31, 30, 31 days come again and again. */
static int64_t month_of(int64_t day)
{
    const int64_t cycle = 146097; /* days of 400 years */
    int64_t days = day + 719468;  /* since the first of that March */
    int64_t cycles = (days < 0 ? days - (cycle - 1) : days) / cycle;
    int64_t rest = days - cycles * cycle;
    int64_t year = (rest - rest / 1460 + rest / 36524 - rest / (cycle - 1)) / 365;
    int64_t of_year = rest - (365 * year + year / 4 - year / 100);
    return (400 * cycles + year) * 12 + (5 * of_year + 2) / 153;
}

static int64_t month_at(int64_t second)
{
    return month_of((second < 0 ? second - (DAY_S - 1) : second) / DAY_S);
}

uint32_t mare_time_leaps_possible(const mare_time_leaps *leaps, int64_t from_ns, int64_t to_ns)
{
    int64_t from_s = second_of(from_ns), to_s = second_of(to_ns);
    uint32_t found = 0;
    for (uint32_t i = 1; i < leaps->count; i++)
        found += leaps->entry[i].utc_s > from_s && leaps->entry[i].utc_s <= to_s;
    int64_t unknown_s = from_s > leaps->expires_s ? from_s : leaps->expires_s;
    if (to_s > unknown_s)
        found += (uint32_t)(month_at(to_s) - month_at(unknown_s));
    return found;
}

int mare_time_leap_today(const mare_time_leaps *leaps, int64_t utc_ns)
{
    int64_t now_s = second_of(utc_ns);
    for (uint32_t i = 1; i < leaps->count; i++) {
        int64_t left_s = leaps->entry[i].utc_s - now_s;
        if (left_s > 0 && left_s <= DAY_S)
            return ahead_at(leaps, i) > ahead_at(leaps, i - 1) ? 1 : -1;
    }
    return 0;
}
