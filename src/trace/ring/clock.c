/* Calibrates the time stamp counter against CLOCK_MONOTONIC. */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "src/sync/testpoint.h"
#include "src/trace/ring/clock.h"

#if TIDEI_HAVE_TSC
#include <cpuid.h>
#endif

bool
tidei_clock_tsc_is_invariant(void)
{
#if TIDEI_HAVE_TSC
    unsigned eax, ebx, ecx, edx;

    /* Advanced power management information: EDX bit 8 (Intel SDM vol. 3, 18.17.1; AMD APM vol. 3, E.4.6). */
    return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & (1u << 8)) != 0;
#else
    return false;
#endif
}

static bool
clock_source_is_tsc(const char *path)
{
    char name[16] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return false;
    length = read(fd, name, sizeof(name) - 1);
    close(fd);
    return length == 4 && memcmp(name, "tsc\n", 4) == 0;
}

bool
tidei_clock_tsc_is_trusted(void)
{
    return tidei_clock_tsc_is_invariant() &&
           clock_source_is_tsc(
               TIDEI_TEST_LIMIT(clocksource, "/sys/devices/system/clocksource/clocksource0/current_clocksource"));
}

struct tidei_clock_sample
tidei_clock_sample_now(bool tsc)
{
    struct tidei_clock_sample best = { tidei_clock_ticks(tsc), tidei_monotonic_ns() };
    uint64_t narrowest = UINT64_MAX;

    if (!tsc) {
        best.ns = best.ticks;
        return best;
    }
    for (int i = 0; i < 5; i++) {
        uint64_t before = tidei_clock_ticks(true);
        uint64_t ns = tidei_monotonic_ns();
        uint64_t after = tidei_clock_ticks(true);

        /* A counter that goes back meanwhile has no middle. */
        if (after >= before && after - before < narrowest) {
            narrowest = after - before;
            best.ticks = before + narrowest / 2;
            best.ns = ns;
        }
    }
    return best;
}

struct tidei_clock_line
tidei_clock_line_between(struct tidei_clock_sample from, struct tidei_clock_sample to, double fallback_ns_per_tick)
{
    struct tidei_clock_line line = { .base = from, .ns_per_tick = fallback_ns_per_tick };

    if (to.ticks > from.ticks && to.ns > from.ns)
        line.ns_per_tick = (double)(to.ns - from.ns) / (double)(to.ticks - from.ticks);
    return line;
}
