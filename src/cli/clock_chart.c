// SPDX-License-Identifier: MIT
// A chart of offsets in the terminal, drawn over the one before it.
//
//     +40 us ┤      ╷
//            ┤  ╷   │ ╷          a dot is an offset, the line through it its error bound
//       0 ns ┼──●─●─●─●──
//            ┤  ╵ ╵ ╵ ╵
#include "cli/clock.h"

#include <stdio.h>
#include <string.h>

enum { LABEL = 12, LINES_MOST = 20, LINES_LEAST = 5, BELOW = 2 };

void mare__clock_chart_add(struct clock_chart *chart, int64_t offset_ns, uint64_t error_ns)
{
    chart->offset_ns[chart->next] = offset_ns;
    chart->error_ns[chart->next] = error_ns;
    chart->next = (chart->next + 1) % CHART_COLUMNS;
    chart->count += chart->count < CHART_COLUMNS;
}

// The k-th of the last `columns`, the oldest first; -1 when there is none.
static int column_at(const struct clock_chart *chart, unsigned columns, unsigned k)
{
    unsigned shown = chart->count < columns ? chart->count : columns;
    if (k >= shown)
        return -1;
    unsigned at = (chart->next + CHART_COLUMNS - shown + k) % CHART_COLUMNS;
    return chart->error_ns[at] == MARE_TIME_UNKNOWN ? -1 : (int)at;
}

// The largest distance from zero that has to be shown.
static double reach_of(const struct clock_chart *chart, unsigned columns)
{
    double reach = 1;
    for (unsigned k = 0; k < columns; k++) {
        int at = column_at(chart, columns, k);
        if (at < 0)
            continue;
        double offset = (double)chart->offset_ns[at], error = (double)chart->error_ns[at];
        double far = (offset < 0 ? -offset : offset) + error;
        reach = far > reach ? far : reach;
    }
    return reach;
}

static const char *cell(const struct clock_chart *chart, int at, double low, double high)
{
    double offset = (double)chart->offset_ns[at], error = (double)chart->error_ns[at];
    if (offset >= low && offset < high)
        return "●";
    return offset - error < high && offset + error >= low ? "│" : NULL;
}

static void draw_line(const struct clock_chart *chart, unsigned columns, unsigned line,
                      unsigned lines, double reach)
{
    char label[32];
    double step = 2 * reach / (lines - 1), middle = reach - step * line;
    bool zero = line == lines / 2;
    if (zero)
        middle = 0;
    bool named = zero || line == 0 || line + 1 == lines;
    printf("\033[K%*s %s", LABEL, named ? mare__clock_span(middle, !zero, label) : "",
           zero ? "┼" : "┤");
    for (unsigned k = 0; k < columns; k++) {
        int at = column_at(chart, columns, k);
        const char *mark = at < 0 ? NULL : cell(chart, at, middle - step / 2, middle + step / 2);
        fputs(mark ? mark : zero ? "─" : " ", stdout);
    }
    putchar('\n');
}

void mare__clock_chart_draw(struct clock_chart *chart, unsigned width, unsigned height)
{
    unsigned columns = width > LABEL + 4 ? width - LABEL - 4 : 1;
    columns = columns < CHART_COLUMNS ? columns : CHART_COLUMNS;
    unsigned lines = height > LINES_MOST + BELOW + 1 ? LINES_MOST : height - BELOW - 1;
    lines = height < LINES_LEAST + BELOW + 1 ? LINES_LEAST : lines;
    lines |= 1; // zero is in the middle
    if (chart->drawn)
        printf("\033[%uA", chart->drawn + 1); // and the line of numbers below
    double reach = reach_of(chart, columns);
    for (unsigned line = 0; line < lines; line++)
        draw_line(chart, columns, line, lines, reach);
    fputs("\033[K", stdout);
    chart->drawn = lines;
}
