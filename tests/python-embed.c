/*
 * Runs Python inside of a program that brings functions of C which allocate. tests/python-stacks-t.sh reads the trace.
 *
 * Usage: python-embed LIBPYTHON STACK. The library of Python is loaded after the stack was made, and its symbols are
 * not global. Python is ended, and begun again. Sizes tell the allocations apart in the trace. Those of 500 bytes come
 * through the bridge, from the stack of TIDEMARK_STACK.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

/* Python's PyMethodDef. */
struct method {
    const char *name;
    void *(*function)(void *self, void *argument);
    int flags; /* 8: METH_O */
    const char *doc;
};

static struct tide_resource *stack;

static void (*initialize)(int handlers);
static int (*finalize)(void);
static int (*run_string)(const char *code);
static long (*as_long)(void *number);
static void *(*from_long)(long number);
static void *(*add_module)(const char *name);
static int (*set_attribute)(void *object, const char *name, void *value);
static void *(*function_new)(struct method *method, void *self, void *module);
static void *(*save_thread)(void);
static void (*restore_thread)(void *thread);
static int (*ensure)(void);
static void (*release)(int before);
static void *(*interpreter_new)(void);
static void (*interpreter_end)(void *thread);
static void *(*swap)(void *thread);

static void
allocate(size_t bytes)
{
    void *block = NULL;

    if (bytes == 500) {
        if (tide_bridge_allocate(0, bytes, 0, &block) != TIDE_OK || tide_bridge_deallocate(block, 0) != TIDE_OK)
            exit(1);
        return;
    }
    if (tide_allocate(stack, bytes, 256, 0, &block) != TIDE_OK ||
        tide_deallocate(stack, block, bytes, 256, 0) != TIDE_OK)
        exit(1);
}

static void *
take(void *self, void *argument)
{
    (void)self;
    allocate((size_t)as_long(argument));
    return from_long(0);
}

/* The same without the GIL. */
static void *
take_without(void *self, void *argument)
{
    size_t bytes = (size_t)as_long(argument);
    void *thread = save_thread();

    (void)self;
    allocate(bytes);
    restore_thread(thread);
    return from_long(0);
}

/* A thread without the GIL allocates while another one holds the GIL, and waits for it. */
static sem_t waiting, held, allocated;

static void *
take_held_up(void *self, void *argument)
{
    size_t bytes = (size_t)as_long(argument);
    void *thread = save_thread();

    (void)self;
    sem_post(&waiting);
    sem_wait(&held);
    allocate(bytes);
    sem_post(&allocated);
    restore_thread(thread);
    return from_long(0);
}

static void *
hold_up(void *self, void *argument)
{
    void *thread = save_thread();

    (void)self;
    (void)argument;
    sem_wait(&waiting);
    restore_thread(thread);
    sem_post(&held);
    sem_wait(&allocated);
    return from_long(0);
}

/* Python code notes its call stack, which is lent to a thread that runs none. */
static uint32_t noted;

static void *
note(void *self, void *argument)
{
    (void)self;
    noted = tide_callstack_python((uint32_t)as_long(argument));
    return from_long(0);
}

static void
look_up(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
    if (*(void **)function == NULL) {
        fprintf(stderr, "there is no %s\n", name);
        exit(1);
    }
}

/* Give the main module of an interpreter the functions. */
static void
add_functions(void)
{
    static struct method methods[] = { { "take", take, 8, NULL },
                                       { "take_without", take_without, 8, NULL },
                                       { "take_held_up", take_held_up, 8, NULL },
                                       { "hold_up", hold_up, 8, NULL },
                                       { "note", note, 8, NULL } };
    void *module = add_module("__main__");

    for (int i = 0; i < 5; i++)
        set_attribute(module, methods[i].name, function_new(&methods[i], NULL, NULL));
}

static void *
thread_lent(void *argument)
{
    if (tide_callstack_lend(noted) != TIDE_OK)
        exit(1);
    allocate(900);
    if (tide_callstack_lend(0) != TIDE_OK)
        exit(1);
    allocate(901);
    return argument;
}

static void *
thread_run(void *argument)
{
    int before;

    allocate(10);
    before = ensure();
    run_string("def of_thread():\n take(11)\n take_without(12)\nof_thread()");
    release(before);
    allocate(13);
    return argument;
}

static void
run_thread(void *(*run)(void *argument))
{
    void *thread = save_thread();
    pthread_t other;

    pthread_create(&other, NULL, run, NULL);
    pthread_join(other, NULL);
    restore_thread(thread);
}

static void
run_another_interpreter(void)
{
    void *main_thread = swap(NULL);
    void *other;

    swap(main_thread);
    other = interpreter_new();
    if (other == NULL)
        exit(1);
    add_functions();
    run_string("def elsewhere():\n take(20)\n take_without(21)\nelsewhere()");
    interpreter_end(other);
    swap(main_thread);
}

static void
run_held_up(int bytes)
{
    char code[256];

    snprintf(code, sizeof(code),
             "import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\n"
             "def waits():\n take_held_up(%d)\n lock.release()\n"
             "_thread.start_new_thread(waits, ())\nhold_up(0)\nlock.acquire()",
             bytes);
    run_string(code);
}

/* How often the collector runs within an allocation of a new function: whatever makes an object there has it run. */
static const char collecting[] = "import gc\n"
                                 "names = {'gc': gc, 'take': take, 'inside': [0], 'hits': [0]}\n"
                                 "gc.callbacks.append(lambda phase, info: names['hits'].append(names['inside'][0]))\n"
                                 "gc.set_threshold(1)\n"
                                 "for i in range(50):\n"
                                 " exec('def made_%d():\\n gc.disable()\\n junk = [[] for i in range(50)]\\n'\n"
                                 "  ' gc.enable()\\n inside[0] = 1\\n take(600)\\n inside[0] = 0' % i, names)\n"
                                 " names['made_%d' % i]()\n"
                                 "gc.disable()\n"
                                 "def collected():\n take(800 + sum(names['hits']))\n"
                                 "collected()";

int
main(int argc, char **argv)
{
    void *library;

    sem_init(&waiting, 0, 0);
    sem_init(&held, 0, 0);
    sem_init(&allocated, 0, 0);
    if (argc != 3 || tide_stack_parse(argv[2], &stack) != TIDE_OK)
        return 2;
    allocate(1);
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return 3;
    look_up(library, "Py_InitializeEx", &initialize);
    look_up(library, "Py_FinalizeEx", &finalize);
    look_up(library, "PyRun_SimpleString", &run_string);
    look_up(library, "PyLong_AsLong", &as_long);
    look_up(library, "PyLong_FromLong", &from_long);
    look_up(library, "PyImport_AddModule", &add_module);
    look_up(library, "PyObject_SetAttrString", &set_attribute);
    look_up(library, "PyCFunction_NewEx", &function_new);
    look_up(library, "PyEval_SaveThread", &save_thread);
    look_up(library, "PyEval_RestoreThread", &restore_thread);
    look_up(library, "PyGILState_Ensure", &ensure);
    look_up(library, "PyGILState_Release", &release);
    look_up(library, "Py_NewInterpreter", &interpreter_new);
    look_up(library, "Py_EndInterpreter", &interpreter_end);
    look_up(library, "PyThreadState_Swap", &swap);
    allocate(2);
    initialize(0);
    add_functions();
    run_string("def first():\n for i in range(64): take(3)\nfirst()");
    run_string("def second():\n take(4)\n take_without(5)\nsecond()");
    run_thread(thread_run);
    run_string("def inner():\n note(1)\ndef noted():\n inner()\nnoted()");
    run_thread(thread_lent);
    run_held_up(50);
    run_another_interpreter();
    run_string("def after():\n take(30)\nafter()");
    finalize();
    allocate(40);
    initialize(0);
    add_functions();
    run_held_up(500);
    run_string("import sys\nseen = []\n"
               "sys.setprofile(lambda frame, event, argument: seen.append(frame.f_code.co_filename))");
    run_string("def again():\n for i in range(64): take(41)\nagain()");
    run_string("def third():\n take(42)\n take_without(43)\nthird()");
    run_string("def profiled():\n sys.setprofile(None)\n take(700 + seen.count('<tidemark>'))\nprofiled()");
    run_string(collecting);
    finalize();
    tide_resource_release(stack);
    return 0;
}
