/*
 * Measures what call stacks of Python cost an allocation and its free over `sim`: under 5, 20 and 50 frames, with and
 * without the GIL. The floor is the same without call stacks. Beside it stands what Python's own functions need to
 * read the same frames, with the GIL taken first, as PyTorch's history of its allocations does.
 *
 * Figures are processor time, the least of many turns.
 *
 * Usage: bench/python LIBPYTHON [JSON-FILE], where LIBPYTHON is the library of CPython 3.11 to 3.13.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bench.h"

#define PYTHON_CALLS 2000
#define PYTHON_TURNS 40

/* Python's PyMethodDef. */
struct method {
    const char *name;
    void *(*function)(void *self, void *argument);
    int flags; /* 4: METH_NOARGS */
    const char *doc;
};

static void (*initialize)(int handlers);
static int (*run_string)(const char *code);
static void *(*from_long)(long number);
static void *(*add_module)(const char *name);
static int (*set_attribute)(void *object, const char *name, void *value);
static void *(*function_new)(struct method *method, void *self, void *module);
static void *(*save_thread)(void);
static void (*restore_thread)(void *thread);
static int (*ensure)(void);
static void (*release)(int before);
static void *(*get_frame)(void);
static void *(*frame_code)(void *frame);
static int (*frame_lasti)(void *frame);
static void *(*frame_back)(void *frame);
static void (*take)(void *object);
static void (*give)(void *object);

static struct tide_resource *stack;
static double took; /* by the latest measurement, in ns a call */

static void
pair(void)
{
    void *block;

    if (tide_allocate(stack, 4096, 256, 0, &block) != TIDE_OK || tide_deallocate(stack, block, 4096, 256, 0) != TIDE_OK)
        bench_fail("pair");
}

/* Read the frames with the functions of Python. */
static void
gather(void)
{
    struct {
        void *code;
        int lasti;
    } frames[128];
    int before = ensure(), count = 0;

    for (void *frame = get_frame(), *back; frame != NULL && count < 128; frame = back) {
        if (count == 0)
            take(frame);
        frames[count].code = frame_code(frame);
        frames[count++].lasti = frame_lasti(frame);
        back = frame_back(frame);
        give(frame);
    }
    while (count > 0)
        give(frames[--count].code);
    release(before);
}

static double
processor_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double
least(void (*call)(void))
{
    double best = 0;

    for (int turn = 0; turn < PYTHON_TURNS; turn++) {
        double begin = processor_ns(), ns;

        for (int i = 0; i < PYTHON_CALLS; i++)
            call();
        ns = (processor_ns() - begin) / PYTHON_CALLS;
        best = turn == 0 || ns < best ? ns : best;
    }
    return best;
}

static void *
with_gil(void *self, void *none)
{
    (void)self;
    (void)none;
    took = least(pair);
    return from_long(0);
}

static void *
without_gil(void *self, void *none)
{
    void *thread = save_thread();

    (void)self;
    (void)none;
    took = least(pair);
    restore_thread(thread);
    return from_long(0);
}

static void *
by_python(void *self, void *none)
{
    void *thread = save_thread();

    (void)self;
    (void)none;
    took = least(gather);
    restore_thread(thread);
    return from_long(0);
}

/* What `function` took under so many frames, of which one is the module's. */
static double
under(unsigned frames, const char *function)
{
    char code[256];

    snprintf(code, sizeof(code), "def deep(n):\n return %s() if n < 2 else deep(n - 1)\ndeep(%u)\ndeep(%u)", function,
             frames - 1, frames - 1);
    if (run_string(code) != 0)
        bench_fail("Python");
    return took;
}

static void
open_stack(const char *arguments)
{
    char text[256];

    if (stack != NULL)
        tide_resource_release(stack);
    snprintf(text, sizeof(text), "log(/tmp/bench-python-%%p.db, overwrite=true%s) | sim", arguments);
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        bench_fail(tide_error_text());
}

static void
measure(const char *arguments, const char *what, const char *function, const unsigned *frames, const double *floors)
{
    char name[128];

    open_stack(arguments);
    for (int i = 0; frames[i] != 0; i++) {
        snprintf(name, sizeof(name), "%u frames: %s", frames[i], what);
        bench_report(name, 1, under(frames[i], function), "ns", floors[i], "no call stacks");
    }
}

static void
begin(const char *path)
{
    static struct method methods[] = { { "with_gil", with_gil, 4, NULL },
                                       { "without_gil", without_gil, 4, NULL },
                                       { "by_python", by_python, 4, NULL } };
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        { "Py_InitializeEx", &initialize },
        { "PyRun_SimpleString", &run_string },
        { "PyLong_FromLong", &from_long },
        { "PyImport_AddModule", &add_module },
        { "PyObject_SetAttrString", &set_attribute },
        { "PyCFunction_NewEx", &function_new },
        { "PyEval_SaveThread", &save_thread },
        { "PyEval_RestoreThread", &restore_thread },
        { "PyGILState_Ensure", &ensure },
        { "PyGILState_Release", &release },
        { "PyEval_GetFrame", &get_frame },
        { "PyFrame_GetCode", &frame_code },
        { "PyFrame_GetLasti", &frame_lasti },
        { "PyFrame_GetBack", &frame_back },
        { "Py_IncRef", &take },
        { "Py_DecRef", &give },
    };
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        *(void **)wanted[i].function = library != NULL ? dlsym(library, wanted[i].name) : NULL;
        if (*(void **)wanted[i].function == NULL)
            bench_fail("the library of Python");
    }
    initialize(0);
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        set_attribute(add_module("__main__"), methods[i].name, function_new(&methods[i], NULL, NULL));
}

int
main(int argc, char **argv)
{
    static const unsigned frames[] = { 5, 20, 50, 0 };
    double floors[3];
    char path[64];

    if (argc < 2)
        bench_fail("usage: bench/python LIBPYTHON [JSON-FILE]");
    begin(argv[1]);
    bench_begin("python");
    open_stack("");
    for (int i = 0; frames[i] != 0; i++) {
        floors[i] = under(frames[i], "without_gil");
        bench_report("floor: no call stacks", 1, floors[i], "ns", 0, NULL);
    }
    measure("", "read by Python's functions alone", "by_python", frames, floors);
    measure(", callstack=python", "callstack=python, with the GIL", "with_gil", frames, floors);
    measure(", callstack=python", "callstack=python, without the GIL", "without_gil", frames, floors);
    measure(", callstack=64", "callstack=64", "without_gil", frames, floors);
    measure(", callstack=mixed", "callstack=mixed", "without_gil", frames, floors);
    tide_resource_release(stack);
    snprintf(path, sizeof(path), "/tmp/bench-python-%d.db", (int)getpid());
    unlink(path);
    bench_end(argc > 2 ? argv[2] : NULL);
    return 0;
}
