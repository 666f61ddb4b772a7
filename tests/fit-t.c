/* Tests what is cut of a page that has too many bytes: all that it needs, or nothing. */
#include "tests/tap.h"

#include "viewer/report/fit.h"

#define ANSWER_BYTES 200000

/* A page that was written once, with two answers and two thousand names of 800 bytes. */
static void
write_page(struct fit *fit, struct gather *gather)
{
    *gather = (struct gather){ .failure_count = 0 };
    fit_begin(fit, gather, 0);
    fit_restart(fit);
    fit_note(fit, FIT_REST, 1000000);
    for (int i = 0; i < 2000; i++)
        fit_note_length(&fit->names, 800);
    fit_note(fit, FIT_NAMES, 2600000);
    fit_note_answer(fit, ANSWER_BYTES);
    fit_note_answer(fit, 500);
    fit_note(fit, FIT_ANSWERS, 2800000);
}

int
main(void)
{
    struct gather gather;
    struct fit fit;

    plan(5);
    write_page(&fit, &gather);
    ok(all_of(fit_cut(&fit, &gather, 300000), fit.is_cut, fit.names.most < 800), "names that are largest are cut");
    ok(fit_note_answer(&fit, ANSWER_BYTES), "an answer that is smaller than they are is not left out");
    write_page(&fit, &gather);
    ok(!fit_cut(&fit, &gather, 1900000), "what all that may be cut does not save is refused");
    ok(all_of(!fit.is_cut, fit.names.most >= 800, fit_note_answer(&fit, ANSWER_BYTES)), "then nothing is cut");
    for (int i = 1; i < FIT_WRITINGS; i++)
        fit_restart(&fit);
    fit_note(&fit, FIT_NAMES, 1600000);
    for (int i = 0; i < 2000; i++)
        fit_note_length(&fit.names, 800);
    ok(!fit_cut(&fit, &gather, 1), "after as many writings as there may be nothing more is cut");
    return done();
}
