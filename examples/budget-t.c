/*
 * A test that enforces a memory budget on the code under test: a limit refuses what exceeds the budget, and
 * statistics say how close the code came and whether it gave everything back.
 *
 *     cc budget-t.c $(pkg-config --cflags --libs tidemark) -o budget-t && prove ./budget-t
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/tidemark.h>

#define BUDGET_BYTES ((uint64_t)1 << 20)
#define ROWS         1000
#define ROW_BYTES    4096

typedef enum tide_status (*work)(struct tide_resource *memory);

/* Code under test: processes its rows with one buffer that it reuses. */
static enum tide_status
thrifty(struct tide_resource *memory)
{
    enum tide_status status;
    void *row;

    for (int i = 0; i < ROWS; i++) {
        status = tide_allocate(memory, ROW_BYTES, TIDE_DEFAULT_ALIGNMENT, 0, &row);
        if (status == TIDE_OK)
            status = tide_deallocate(memory, row, ROW_BYTES, TIDE_DEFAULT_ALIGNMENT, 0);
        if (status != TIDE_OK)
            return status;
    }
    return TIDE_OK;
}

/* Code under test: keeps every row until the end, four times its budget in all. */
static enum tide_status
greedy(struct tide_resource *memory)
{
    enum tide_status status = TIDE_OK;
    void *rows[ROWS];
    int made = 0;

    while (made < ROWS && status == TIDE_OK) {
        status = tide_allocate(memory, ROW_BYTES, TIDE_DEFAULT_ALIGNMENT, 0, &rows[made]);
        made += status == TIDE_OK;
    }
    while (made > 0)
        tide_deallocate(memory, rows[--made], ROW_BYTES, TIDE_DEFAULT_ALIGNMENT, 0);
    return status;
}

/* Run `function` within `budget_bytes`. Returns its status and the figures at its end. */
static enum tide_status
run_within(uint64_t budget_bytes, work function, struct tide_statistics_figures *figures)
{
    const struct tide_limit_options budget = { TIDE_OPTIONS(budget), .limit_bytes = budget_bytes, .alignment = 1 };
    struct tide_resource *host = NULL;
    struct tide_resource *limit = NULL;
    struct tide_resource *statistics = NULL;
    enum tide_status status;

    *figures = (struct tide_statistics_figures){ TIDE_FIGURES(*figures) };
    if ((status = tide_host_create(NULL, &host)) != TIDE_OK ||
        (status = tide_limit_create(host, &budget, &limit)) != TIDE_OK ||
        (status = tide_statistics_create(limit, NULL, &statistics)) != TIDE_OK)
        goto out;
    status = function(statistics);
    tide_statistics_read(statistics, figures);
out:
    tide_resource_release(statistics);
    tide_resource_release(limit);
    tide_resource_release(host);
    return status;
}

/* Prints one line of TAP. */
static void
ok(bool passed, const char *sentence)
{
    static int number;

    printf("%s %d - %s\n", passed ? "ok" : "not ok", ++number, sentence);
}

int
main(void)
{
    struct tide_statistics_figures figures;

    puts("1..7");
    ok(run_within(BUDGET_BYTES, thrifty, &figures) == TIDE_OK, "the thrifty code stays within its budget");
    ok(figures.bytes.peak == ROW_BYTES, "the thrifty code holds one row at a time");
    ok(figures.bytes.current == 0, "the thrifty code gives everything back");

    /* A test of real code ends here. These show that code past its budget does not get through. */
    ok(run_within(BUDGET_BYTES, greedy, &figures) == TIDE_ELIMIT,
       "the greedy code is refused the request that exceeds its budget");
    ok(strstr(tide_error_text(), "limit:") != NULL, "the error text says that the limit refused");
    ok(figures.bytes.peak == BUDGET_BYTES, "the greedy code gets its budget to the last byte");
    ok(run_within(ROWS * ROW_BYTES, greedy, &figures) == TIDE_OK,
       "the greedy code runs with a budget of all that it needs");
    return 0;
}
