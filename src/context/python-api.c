/* Finds CPython in the process, and checks that its frames can be read. */
#include "config.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/context/modules.h"
#include "src/context/python-api.h"
#include "src/context/python.h"
#include "src/resource/resource.h"

#define PYTHON_EVAL         258 /* Py_eval_input */
#define PYTHON_NO_ARGUMENTS 4   /* METH_NOARGS */
#define PYTHON_CHECKED      64  /* frames that the check compares */
#define PYTHON_OWN_FRAMES   3   /* of these, those of its own program */
#define PYTHON_FRAME_BYTES  104 /* the last of the fields that are read */
#define PYTHON_CODE_BYTES   200

struct tidei_python_functions tidei_python;
const struct tidei_python_layout *tidei_python_layout;
void (*tidei_python_at_end)(void);

static _Atomic int python_state;
static _Atomic uint32_t python_epoch;
static struct tidei_presence python_readers; /* threads that read frames without the GIL */
static _Atomic uint32_t python_attempts;     /* to begin within a call */
static atomic_flag python_beginning = ATOMIC_FLAG_INIT;
/* Whether python_end will be called before threads are removed, so that a thread may read frames without the GIL. */
static _Atomic bool python_guarded;
static _Atomic bool python_registered; /* it is registered with atexit */
static _Atomic bool python_found;      /* `tidei_python` is complete; written by who has `python_beginning` */

/* From the headers of each version; its patch releases keep them. */
static const struct tidei_python_layout python_layouts[] = {
    { .minor = 9,
      .thread_frame = 24,
      .previous = 24,
      .code = 32,
      .at = 104,
      .at_scale = 1,
      .file = 104,
      .function = 112 },
    { .minor = 10,
      .thread_frame = 24,
      .previous = 24,
      .code = 32,
      .at = 96,
      .at_scale = 2,
      .file = 104,
      .function = 112 },
    { .minor = 11,
      .thread_frame = 56,
      .has_cframe = true,
      .cframe_frame = 8,
      .previous = 48,
      .code = 32,
      .at = 56,
      .owner = 69,
      .entry = 68,
      .first_traceable = 168,
      .instructions = 184,
      .file = 112,
      .function = 128 },
    { .minor = 12,
      .thread_frame = 56,
      .has_cframe = true,
      .previous = 8,
      .at = 56,
      .owner = 70,
      .first_traceable = 176,
      .instructions = 192,
      .file = 112,
      .function = 128,
      .identity = 92 },
    { .minor = 13,
      .thread_frame = 72,
      .previous = 8,
      .at = 56,
      .owner = 70,
      .first_traceable = 184,
      .instructions = 200,
      .file = 112,
      .function = 128,
      .identity = 92 },
};

enum tidei_python_state
tidei_python_state(void)
{
    /* Acquire: pairs with the release in python_start, to see functions and layout. */
    return (enum tidei_python_state)atomic_load_explicit(&python_state, memory_order_acquire);
}

bool
tidei_python_is_ready(void)
{
    return tidei_python_state() == TIDEI_PYTHON_READY;
}

uint32_t
tidei_python_epoch(void)
{
    return atomic_load_explicit(&python_epoch, memory_order_relaxed);
}

void
tidei_python_warn(const char *reason)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    /* Relaxed: it orders no other data. */
    if (!atomic_flag_test_and_set_explicit(&warned, memory_order_relaxed))
        tidei_message(TIDE_WARNING, "call stacks: no frames of Python are recorded: %s", reason);
}

/* Called by atexit, with the GIL, before threads are removed: see tidei_python_enter. */
static void *
python_end(void *self, void *arguments)
{
    void *thread;

    (void)self;
    (void)arguments;
    atomic_store(&python_state, TIDEI_PYTHON_ENDING);
    /* What is known of code objects that others may free from now on is not believed any more. */
    atomic_fetch_add(&python_epoch, 1);
    /* Readers need no GIL. But one may wait for a lock whose holder waits for a thread that does. */
    thread = tidei_python.PyEval_SaveThread();
    tidei_presence_wait(&python_readers);
    tidei_python.PyEval_RestoreThread(thread);
    if (tidei_python_at_end != NULL)
        tidei_python_at_end();
    return tidei_python.PyLong_FromLong(0);
}

/* Called after the finalization: the interpreter may be initialized again. */
static void
python_ended(void)
{
    atomic_store(&python_state, TIDEI_PYTHON_NONE);
    atomic_store(&python_guarded, false);
    atomic_store(&python_registered, false);
    atomic_store_explicit(&python_attempts, 0, memory_order_relaxed);
}

/* Have Python call python_end before it removes its threads. */
static bool
python_register_end(void)
{
    static struct tidei_python_method method = { "tidemark_end", python_end, PYTHON_NO_ARGUMENTS, NULL };
    void *function = tidei_python.PyCFunction_NewEx(&method, NULL, NULL);
    void *module = tidei_python.PyImport_ImportModule("atexit");
    void *result = NULL;

    if (function != NULL && module != NULL)
        result = tidei_python.PyObject_CallMethod(module, "register", "O", function);
    tidei_python.Py_DecRef(result);
    tidei_python.Py_DecRef(module);
    tidei_python.Py_DecRef(function);
    if (result == NULL || tidei_python.Py_AtExit(python_ended) != 0)
        return false;
    atomic_store(&python_registered, true);
    atomic_store(&python_guarded, true);
    return true;
}

/* Called by the main thread with the GIL, between two instructions of its program, or before Python's end. */
static int
python_register_pending(void *context)
{
    void *type, *value, *trace;

    (void)context;
    tidei_python.PyErr_Fetch(&type, &value, &trace);
    if (tidei_python_state() == TIDEI_PYTHON_READY && !atomic_load(&python_registered))
        python_register_end();
    tidei_python.PyErr_Clear();
    tidei_python.PyErr_Restore(type, value, trace);
    return 0;
}

/*
 * Have python_end registered. Python makes pending calls before it calls what is registered with atexit, so that no
 * thread has to wait for this one.
 */
static bool
python_guard(void)
{
    bool unguarded = false;

    if (atomic_compare_exchange_strong(&python_guarded, &unguarded, true) &&
        tidei_python.Py_AddPendingCall(python_register_pending, NULL) != 0)
        atomic_store(&python_guarded, false); /* too many wait */
    return atomic_load(&python_guarded);
}

bool
tidei_python_enter(void *thread, struct tidei_python_reader *reader)
{
    int state = tidei_python_state();

    if (state != TIDEI_PYTHON_READY && state != TIDEI_PYTHON_ENDING)
        return false;
    reader->holds = tidei_python.current_thread() == thread;
    if (reader->holds)
        return true;
    /*
     * Either this sees that the interpreter ends, or the wait in python_end sees the reader. With a counter of all
     * readers in place of the slots a call took 45 ns more where the GIL had just been released (EPYC).
     */
    reader->slot = tidei_presence_enter(&python_readers);
    if (atomic_load(&python_state) == TIDEI_PYTHON_READY && (atomic_load(&python_guarded) || python_guard()))
        return true;
    tidei_python_leave(reader);
    return false;
}

void
tidei_python_leave(const struct tidei_python_reader *reader)
{
    if (!reader->holds)
        tidei_presence_leave(&python_readers, reader->slot);
}

void
tidei_python_forked(void)
{
    atomic_store(&python_readers.others, 0);
    atomic_flag_clear(&python_beginning);
}

/* Called for each object: the interpreter's library, where its symbols are not global. */
static int
python_see_library(struct dl_phdr_info *info, size_t bytes, void *handle)
{
    const char *slash = strrchr(info->dlpi_name, '/');

    (void)bytes;
    if (strncmp(slash != NULL ? slash + 1 : info->dlpi_name, "libpython3.", 11) != 0)
        return 0;
    *(void **)handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return *(void **)handle != NULL;
}

/* Fill `tidei_python`. False where there is no Python, or one before 3.9. */
static bool
python_find(void)
{
#define PYTHON_NAME(returns, name, arguments) #name,
    static const char *const names[] = { TIDEI_PYTHON_FUNCTIONS(PYTHON_NAME) };
#undef PYTHON_NAME
    void *found[sizeof(names) / sizeof(names[0])];
    void *handle = RTLD_DEFAULT, *current;

    if (!tidei_modules_have_loader())
        return false;
    if (dlsym(handle, names[0]) == NULL && (dl_iterate_phdr(python_see_library, &handle), handle == RTLD_DEFAULT))
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        found[i] = dlsym(handle, names[i]);
        if (found[i] == NULL)
            return false;
    }
    _Static_assert(sizeof(found) == offsetof(struct tidei_python_functions, current_thread),
                   "the functions come first, in the order of their names");
    memcpy(&tidei_python, found, sizeof(found));
    current = dlsym(handle, "_PyThreadState_UncheckedGet");
    if (current == NULL)
        current = dlsym(handle, "PyThreadState_GetUnchecked");
    memcpy(&tidei_python.current_thread, &current, sizeof(current));
    tidei_python.code_type = (uintptr_t)dlsym(handle, "PyCode_Type");
    tidei_python.text_type = (uintptr_t)dlsym(handle, "PyUnicode_Type");
    tidei_python.none = (uintptr_t)dlsym(handle, "_Py_NoneStruct");
    tidei_python.eval_loop = dlsym(handle, "_PyEval_EvalFrameDefault");
    return current != NULL && tidei_python.code_type != 0 && tidei_python.text_type != 0 && tidei_python.none != 0;
}

/* The layout of this version; NULL where it is not known, as that of a build without a GIL. */
static const struct tidei_python_layout *
python_layout_of(const char *version)
{
    unsigned major, minor;

    if (sizeof(void *) != 8 || strstr(version, "free-threading") != NULL ||
        sscanf(version, "%u.%u", &major, &minor) != 2 || major != 3)
        return NULL;
    for (size_t i = 0; i < sizeof(python_layouts) / sizeof(python_layouts[0]); i++) {
        if (python_layouts[i].minor == minor)
            return &python_layouts[i];
    }
    return NULL;
}

/* The check: its program calls python_check at the innermost of its frames. */
static bool python_check_passed;

static int python_probe[2]; /* a pipe, of who has `python_beginning` */

/* Copy memory, if there is any: the kernel says so where it is to be written into a pipe. */
static bool
python_copy(uintptr_t at, void *out, size_t bytes)
{
    return at >= 4096 && write(python_probe[1], (const void *)at, bytes) == (ssize_t)bytes &&
           read(python_probe[0], out, bytes) == (ssize_t)bytes;
}

static bool
python_can_read(uintptr_t at, size_t bytes)
{
    char taken[256];

    return bytes <= sizeof(taken) && python_copy(at, taken, bytes);
}

/* The attribute of an object as a pointer to compare, or (*number) as a number; 0: there is none. */
static uintptr_t
python_attribute(void *object, const char *name, long *number)
{
    void *value = tidei_python.PyObject_GetAttrString(object, name);

    if (value == NULL) {
        tidei_python.PyErr_Clear();
        return 0;
    }
    if (number != NULL)
        *number = tidei_python.PyLong_AsLong(value);
    tidei_python.Py_DecRef(value); /* what has the attribute holds it */
    return (uintptr_t)value;
}

/* Whether a frame in memory is the one that Python reports. */
static bool
python_check_frame(const struct tidei_python_layout *layout, uintptr_t frame, void *reported, bool own)
{
    uintptr_t code = tidei_python_pointer(frame, layout->code);
    uintptr_t at = tidei_python_at(layout, frame);
    int offset = tidei_python_offset(layout, code, at);
    long number = -2, line = -2;

    return python_can_read(code, PYTHON_CODE_BYTES) && python_attribute(reported, "f_code", NULL) == code &&
           python_attribute((void *)code, "co_filename", NULL) == tidei_python_pointer(code, layout->file) &&
           python_attribute((void *)code, layout->minor >= 11 ? "co_qualname" : "co_name", NULL) ==
               tidei_python_pointer(code, layout->function) &&
           python_attribute(reported, "f_lasti", &number) != 0 && number == offset &&
           python_attribute(reported, "f_lineno", &line) != 0 &&
           (!own || line == tidei_python.PyCode_Addr2Line((void *)code, offset));
}

/* The next frame from `frame` on that Python reports, too; 0: the end. *broken: this cannot be a frame. */
static uintptr_t
python_check_next(const struct tidei_python_layout *layout, uintptr_t frame, bool *broken)
{
    while (frame != 0) {
        uintptr_t code;

        if (!python_can_read(frame, PYTHON_FRAME_BYTES) ||
            (layout->at_scale != 0 && !python_can_read(frame + 8, PYTHON_FRAME_BYTES))) {
            *broken = true;
            return 0;
        }
        code = tidei_python_pointer(frame, layout->code);
        if (!tidei_python_is_outside(layout, frame) &&
            (!python_can_read(code, PYTHON_CODE_BYTES) ||
             tidei_python_has_begun(layout, frame, code, tidei_python_at(layout, frame))))
            break;
        frame = tidei_python_pointer(frame, layout->previous);
    }
    return frame;
}

/* Compare the frames of this thread as they lie in memory with those that Python reports. */
static bool
python_check_frames(const struct tidei_python_layout *layout, void *thread)
{
    void *reported = tidei_python.PyEval_GetFrame();
    bool broken = false, same = reported != NULL;
    uintptr_t frame;
    unsigned count = 0;

    if (!same || !python_can_read((uintptr_t)thread, 128))
        return false;
    frame = tidei_python_pointer((uintptr_t)thread, layout->thread_frame);
    if (layout->has_cframe && !python_can_read(frame, 16))
        return false;
    frame = python_check_next(layout, tidei_python_first(layout, thread), &broken);
    tidei_python.Py_IncRef(reported);
    for (; same && frame != 0 && (uintptr_t)reported != tidei_python.none && count < PYTHON_CHECKED; count++) {
        void *back;

        same = python_check_frame(layout, frame, reported, count < PYTHON_OWN_FRAMES);
        frame = python_check_next(layout, tidei_python_pointer(frame, layout->previous), &broken);
        back = tidei_python.PyObject_GetAttrString(reported, "f_back");
        tidei_python.Py_DecRef(reported);
        reported = back;
        same = same && back != NULL;
    }
    same = same && !broken && count >= PYTHON_OWN_FRAMES &&
           (count == PYTHON_CHECKED || (frame == 0) == ((uintptr_t)reported == tidei_python.none));
    if (reported != NULL)
        tidei_python.Py_DecRef(reported);
    return same;
}

static void *
python_check(void *self, void *arguments)
{
    (void)self;
    (void)arguments;
    python_check_passed = python_check_frames(tidei_python_layout, tidei_python.PyGILState_GetThisThreadState());
    return tidei_python.PyLong_FromLong(0);
}

/* Run the program of the check. It has three frames of its own, on top of those that the thread has. */
static bool
python_check_run(void)
{
    static struct tidei_python_method method = { "tidemark_check", python_check, PYTHON_NO_ARGUMENTS, NULL };
    void *function = tidei_python.PyCFunction_NewEx(&method, NULL, NULL);
    void *names = tidei_python.PyDict_New();
    void *code = tidei_python.Py_CompileString("(lambda:\n (lambda:\n  check())())()", "<tidemark>", PYTHON_EVAL);
    void *result = NULL;

    python_check_passed = false;
    if (function != NULL && names != NULL && code != NULL && pipe2(python_probe, O_CLOEXEC) == 0) {
        if (tidei_python.PyDict_SetItemString(names, "check", function) == 0)
            result = tidei_python.PyEval_EvalCode(code, names, names);
        close(python_probe[0]);
        close(python_probe[1]);
    }
    tidei_python.Py_DecRef(result); /* NULL is allowed */
    tidei_python.Py_DecRef(code);
    tidei_python.Py_DecRef(names);
    tidei_python.Py_DecRef(function);
    return result != NULL && python_check_passed;
}

/* Whether this version is known; else that is said, and for good. */
static bool
python_know_layout(void)
{
    tidei_python_layout = python_layout_of(tidei_python.Py_GetVersion());
    if (tidei_python_layout != NULL)
        return true;
    atomic_store(&python_state, TIDEI_PYTHON_UNUSABLE);
    tidei_python_warn("this version of Python is not known, 3.9 to 3.13 with a GIL are");
    return false;
}

/* Whether a thread is one of the main interpreter. */
static bool
python_is_main(const void *thread)
{
    return tidei_python_pointer((uintptr_t)thread, TIDEI_PYTHON_THREAD_INTERPRETER) ==
           (uintptr_t)tidei_python.PyInterpreterState_Main();
}

static void
python_checked(bool good)
{
    if (!good)
        tidei_python_warn("the interpreter's frames are not where this version of Python has them");
    atomic_fetch_add(&python_epoch, 1);
    /* Release: pairs with the acquire in tidei_python_state. */
    atomic_store(&python_state, good ? TIDEI_PYTHON_READY : TIDEI_PYTHON_UNUSABLE);
}

/* Whether a code object in memory is one, with a file and a function. */
static bool
python_looks_like_code(const struct tidei_python_layout *layout, uintptr_t code, uintptr_t at)
{
    unsigned char copy[PYTHON_CODE_BYTES], text[16];
    uintptr_t first = (uintptr_t)copy;
    const uint16_t texts[] = { layout->file, layout->function };

    if (!python_copy(code, copy, sizeof(copy)) || tidei_python_pointer(first, 8) != tidei_python.code_type)
        return false;
    /* Where it stands: from the instruction before the first one to the last; ob_size counts them. */
    if (layout->at_scale == 0 && at + 2 - (code + layout->instructions) > 2 * tidei_python_pointer(first, 16) + 2)
        return false;
    for (int i = 0; i < 2; i++) {
        if (!python_copy(tidei_python_pointer(first, texts[i]), text, sizeof(text)) ||
            tidei_python_pointer((uintptr_t)text, 8) != tidei_python.text_type)
            return false;
    }
    return true;
}

/* Whether the frames of this thread can be read; *count: how many it has. Runs nothing of Python's. */
static bool
python_check_memory(const struct tidei_python_layout *layout, const void *thread, unsigned *count)
{
    unsigned char copy[PYTHON_FRAME_BYTES + 8];
    uintptr_t at = (uintptr_t)thread + layout->thread_frame, frame;
    size_t bytes = layout->at_scale != 0 ? sizeof(copy) : PYTHON_FRAME_BYTES;

    if (!python_copy(at, &frame, sizeof(frame)))
        return false;
    if (layout->has_cframe && frame != 0 && !python_copy(frame + layout->cframe_frame, &frame, sizeof(frame)))
        return false;
    while (frame != 0 && *count < PYTHON_CHECKED) {
        uintptr_t here = (uintptr_t)copy;

        if (!python_copy(frame, copy, bytes))
            return false;
        if (!tidei_python_is_outside(layout, here)) {
            if (!python_looks_like_code(layout, tidei_python_pointer(here, layout->code),
                                        tidei_python_at(layout, here)))
                return false;
            ++*count;
        }
        frame = tidei_python_pointer(here, layout->previous);
    }
    return true;
}

/* Prepare the interpreter for a thread that runs Python code, within an allocation. */
static void
python_start_within(void)
{
    const void *thread = tidei_python.PyGILState_GetThisThreadState();
    unsigned count = 0;
    bool good;

    if (thread == NULL || tidei_python_state() != TIDEI_PYTHON_NONE || !python_is_main(thread) ||
        !python_know_layout() || pipe2(python_probe, O_CLOEXEC) != 0)
        return;
    good = python_check_memory(tidei_python_layout, thread, &count);
    close(python_probe[0]);
    close(python_probe[1]);
    if (!good || count != 0)
        python_checked(good);
}

/* Prepare the interpreter; the thread holds the GIL. An exception that is being raised stays as it is. */
static void
python_start(void)
{
    void *thread = tidei_python.PyGILState_GetThisThreadState();
    void *type, *value, *trace;
    bool good;

    if (tidei_python_state() != TIDEI_PYTHON_NONE)
        return;
    if (!python_know_layout() || !python_is_main(thread))
        return;
    tidei_python.PyErr_Fetch(&type, &value, &trace);
    good = python_check_run() && python_register_end();
    tidei_python.PyErr_Clear();
    tidei_python.PyErr_Restore(type, value, trace);
    python_checked(good);
}

static bool
python_holds_gil(void)
{
    void *thread = tidei_python.PyGILState_GetThisThreadState();

    return thread != NULL && tidei_python.current_thread() == thread;
}

static void
python_begin(bool may_wait)
{
    if (!python_found && python_find()) {
        tidei_presence_init(&python_readers);
        python_found = true;
    }
    if (!python_found || !tidei_python.Py_IsInitialized())
        return;
    if (may_wait && python_holds_gil()) {
        python_start();
    } else if (may_wait && tidei_python.PyInterpreterState_Next(tidei_python.PyInterpreterState_Head()) == NULL) {
        int before = tidei_python.PyGILState_Ensure();

        python_start();
        tidei_python.PyGILState_Release(before);
    } else {
        python_start_within();
    }
}

/* Whether this thread has looked. */
static bool
python_begin_alone(bool may_wait)
{
    int cancel;

    /* Whoever comes meanwhile goes on without: the one that prepares may wait for the GIL, which the other may hold. */
    if (tidei_python_state() != TIDEI_PYTHON_NONE || atomic_flag_test_and_set(&python_beginning))
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    python_begin(may_wait);
    pthread_setcancelstate(cancel, NULL);
    atomic_flag_clear(&python_beginning);
    return true;
}

/* This thread is within an allocation. */
static _Thread_local __attribute__((tls_model("initial-exec"))) bool python_is_within;

bool
tidei_python_within(bool within)
{
    bool before = python_is_within;

    python_is_within = within;
    return before;
}

void
tidei_python_begin(void)
{
    python_begin_alone(!python_is_within);
}

void
tidei_python_begin_within(void)
{
    uint32_t attempt = atomic_fetch_add_explicit(&python_attempts, 1, memory_order_relaxed) + 1;

    /* Python may be loaded later: it is looked for ever more seldom. */
    if ((attempt & (attempt - 1)) != 0 && attempt % (1u << 16) != 0)
        return;
    if (python_begin_alone(false) && !python_found)
        tidei_python_warn("there is no Python in this process so far, or one before 3.9");
}
