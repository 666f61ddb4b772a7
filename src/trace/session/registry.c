/* Keeps all recorders of this process, and the locks between them and what is done beside them. */
#include "config.h"

#include <sys/stat.h>

#include "src/trace/session/registry.h"

struct tidei_registry tidei_registry = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                         .files_lock = PTHREAD_MUTEX_INITIALIZER,
                                         .recovery_gate = TIDEI_GATE_INITIALIZER };

/* No two states of any recorder ever have the same serial. */
static _Atomic uint64_t registry_latest_serial;

uint64_t
tidei_recorder_new_serial(void)
{
    return atomic_fetch_add_explicit(&registry_latest_serial, 1, memory_order_relaxed) + 1;
}

void
tidei_recorder_set_mode(struct tidei_recorder *recorder, enum tidei_recorder_mode mode)
{
    /* Pairs with the acquire in tidei_producer_find: who sees the new serial sees the mode. */
    atomic_store_explicit(&recorder->mode, mode, memory_order_release);
    atomic_store_explicit(&recorder->serial, tidei_recorder_new_serial(), memory_order_release);
}

void
tidei_recorder_each(void (*each)(struct tidei_recorder *recorder, void *context), void *context)
{
    pthread_mutex_lock(&tidei_registry.lock);
    for (struct tidei_recorder *recorder = tidei_registry.first; recorder != NULL; recorder = recorder->next)
        each(recorder, context);
    pthread_mutex_unlock(&tidei_registry.lock);
}

bool
tidei_recorder_owns_locked(const char *path)
{
    struct stat wanted, open;

    if (stat(path, &wanted) != 0)
        return false;
    for (struct tidei_recorder *recorder = tidei_registry.first; recorder != NULL; recorder = recorder->next) {
        if (recorder->file != NULL && recorder->file->fd >= 0 && fstat(recorder->file->fd, &open) == 0 &&
            open.st_dev == wanted.st_dev && open.st_ino == wanted.st_ino)
            return true;
    }
    return false;
}

bool
tidei_recorder_owns(const char *path)
{
    bool owns;

    pthread_mutex_lock(&tidei_registry.lock);
    owns = tidei_recorder_owns_locked(path);
    pthread_mutex_unlock(&tidei_registry.lock);
    return owns;
}

struct tidei_recorder *
tidei_recorder_lock_serial(uint64_t serial)
{
    struct tidei_recorder *recorder;

    pthread_mutex_lock(&tidei_registry.lock);
    for (recorder = tidei_registry.first; recorder != NULL; recorder = recorder->next) {
        if (atomic_load_explicit(&recorder->serial, memory_order_relaxed) == serial)
            return recorder;
    }
    pthread_mutex_unlock(&tidei_registry.lock);
    return NULL;
}

void
tidei_recorder_unlock(struct tidei_recorder *recorder)
{
    (void)recorder;
    pthread_mutex_unlock(&tidei_registry.lock);
}

bool
tidei_recorder_try_lock(void)
{
    return pthread_mutex_trylock(&tidei_registry.lock) == 0;
}

bool
tidei_recorder_is_open_locked(const struct tidei_recorder *recorder)
{
    const struct tidei_recorder *open = tidei_registry.first;

    while (open != NULL && open != recorder)
        open = open->next;
    return open != NULL;
}

struct tidei_gate *
tidei_recorder_recovery_gate(void)
{
    return &tidei_registry.recovery_gate;
}

void
tidei_recorder_files_lock(void)
{
    tidei_recorder_handle_forks();
    pthread_mutex_lock(&tidei_registry.files_lock);
}

void
tidei_recorder_files_unlock(void)
{
    pthread_mutex_unlock(&tidei_registry.files_lock);
}
