/* SPDX-License-Identifier: MIT */

/* Matrices of round trips: read from a file. matrix_make.c makes them. */

#include "sim/place.h"
#include "sim/random.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MOST 20000u

static int is_separator(char c)
{
    return c == ' ' || c == '\t' || c == ',' || c == ';' || c == '\r' || c == '\n';
}

/* The next number of a line, -1 if it is missing. Returns 0 at the end, -1 for a malformed one. */
static int next_number(char **at, double *value)
{
    while (**at && is_separator(**at))
        (*at)++;
    if (!**at || **at == '#')
        return 0;
    char *end;
    *value = strtod(*at, &end);
    if (end == *at && **at == '-') { /* a dash alone */
        end++;
        *value = -1;
    }
    if (end == *at || (*end && !is_separator(*end)))
        return -1;
    *at = end;
    if (!(*value > 0 && *value <= 1e9))
        *value = -1;
    return 1;
}

static uint32_t count_numbers(const char *line)
{
    uint32_t count = 0;
    for (size_t i = 0; line[i] && line[i] != '#'; i++)
        count += !is_separator(line[i]) && (i == 0 || is_separator(line[i - 1]));
    return count;
}

static const char *read_row(mare_sim_matrix *matrix, uint32_t row, char *line, char why[100])
{
    char *at = line;
    for (uint32_t column = 0; column < matrix->n; column++) {
        double value;
        int got = next_number(&at, &value);
        if (got <= 0) {
            snprintf(why, 100, got ? "row %u, column %u: no number" : "row %u ends at column %u",
                     row + 1, column + 1);
            return why;
        }
        matrix->rtt[(size_t)row * matrix->n + column] = row == column ? 0 : value;
    }
    double more;
    if (next_number(&at, &more) == 0)
        return NULL;
    snprintf(why, 100, "row %u is longer than the first", row + 1);
    return why;
}

static const char *take_line(mare_sim_matrix *matrix, uint32_t *row, char *line, char why[100])
{
    uint32_t count = count_numbers(line);
    if (count == 0)
        return NULL;
    if (!matrix->rtt) {
        matrix->n = count;
        if (count < 2 || count > NODES_MOST)
            return "a matrix has from 2 to 20,000 columns";
        matrix->rtt = calloc((size_t)count * count, sizeof *matrix->rtt);
        if (!matrix->rtt)
            return "not enough memory";
    }
    if (*row == matrix->n)
        return "there are more rows than columns";
    return read_row(matrix, (*row)++, line, why);
}

static int any_measured(const mare_sim_matrix *matrix)
{
    size_t all = (size_t)matrix->n * matrix->n, i = 0;
    while (i < all && !(matrix->rtt[i] > 0))
        i++;
    return i < all;
}

const char *mare_sim_matrix_read(mare_sim_matrix *matrix, FILE *file, char why[100])
{
    char *line = NULL;
    size_t room = 0;
    uint32_t row = 0;
    const char *wrong = NULL;
    *matrix = (mare_sim_matrix){0};
    while (!wrong && getline(&line, &room, file) >= 0)
        wrong = take_line(matrix, &row, line, why);
    free(line);
    if (!wrong && row == 0)
        wrong = "it is empty";
    if (!wrong && row < matrix->n) {
        snprintf(why, 100, "%u columns, but only %u rows", matrix->n, row);
        wrong = why;
    }
    if (!wrong && !any_measured(matrix))
        wrong = "no pair was measured";
    if (wrong)
        mare_sim_matrix_fini(matrix);
    return wrong;
}

void mare_sim_matrix_fini(mare_sim_matrix *matrix)
{
    free(matrix->rtt);
    *matrix = (mare_sim_matrix){0};
}

double mare_sim_matrix_broken(const mare_sim_matrix *matrix, uint64_t seed)
{
    mare_sim_random random = mare_sim_stream(seed, 78);
    uint32_t broken = 0, tried = 0;
    for (int draw = 0; draw < 20000; draw++) {
        uint32_t i = (uint32_t)mare_sim_below(&random, matrix->n);
        uint32_t j = (uint32_t)mare_sim_below(&random, matrix->n);
        uint32_t k = (uint32_t)mare_sim_below(&random, matrix->n);
        double a = mare_sim_matrix_at(matrix, i, j), b = mare_sim_matrix_at(matrix, j, k);
        double c = mare_sim_matrix_at(matrix, i, k);
        if (!(a > 0 && b > 0 && c > 0))
            continue;
        tried++;
        broken += a > b + c || b > a + c || c > a + b;
    }
    return tried ? (double)broken / tried : 0;
}
