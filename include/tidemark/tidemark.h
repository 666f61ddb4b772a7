/*
 * Tidemark: instruments GPU memory allocation. This header includes the whole public interface.
 *
 *     #include <tidemark/tidemark.h>
 *
 *     struct tide_resource *stack;
 *     if (tide_stack_from_environment("statistics | limit(4GiB) | driver", &stack) != TIDE_OK)
 *         fprintf(stderr, "%s\n", tide_error_text());
 *     ...
 *     status = tide_allocate(stack, bytes, TIDE_DEFAULT_ALIGNMENT, stream, &pointer);
 *     ...
 *     tide_resource_release(stack);
 */
#ifndef TIDEMARK_TIDEMARK_H
#define TIDEMARK_TIDEMARK_H

#include <tidemark/aligned.h>
#include <tidemark/arena.h>
#include <tidemark/base.h>
#include <tidemark/binning.h>
#include <tidemark/bridge.h>
#include <tidemark/callback.h>
#include <tidemark/callstack.h>
#include <tidemark/driver.h>
#include <tidemark/export.h>
#include <tidemark/fallback.h>
#include <tidemark/fault.h>
#include <tidemark/fixed.h>
#include <tidemark/guard.h>
#include <tidemark/limit.h>
#include <tidemark/log.h>
#include <tidemark/message.h>
#include <tidemark/monotonic.h>
#include <tidemark/pool.h>
#include <tidemark/prefetch.h>
#include <tidemark/process.h>
#include <tidemark/resource.h>
#include <tidemark/retry.h>
#include <tidemark/sized.h>
#include <tidemark/stack.h>
#include <tidemark/statistics.h>
#include <tidemark/status.h>
#include <tidemark/tag.h>
#include <tidemark/text.h>
#include <tidemark/trace.h>
#include <tidemark/track.h>
#include <tidemark/version.h>
#include <tidemark/vmm.h>

#endif
