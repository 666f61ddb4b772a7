/* From the names of NVTX ranges to the names of tags, of which a program shall have few. */
#ifndef TIDEI_NVTX_NAMES_H
#define TIDEI_NVTX_NAMES_H

#include <stddef.h>
#include <wchar.h>

#define TIDEI_NVTX_NAME_BYTES 256

/*
 * Write the tag's name for a range's to `out`, of TIDEI_NVTX_NAME_BYTES. What differs from call to call goes: what
 * PyTorch appends from `, seq = `, `, op_id = `, `, input_op_ids = ` or `, sizes = ` on, and XLA's `#key=value,...#`,
 * of which the first of `name`, `hlo_module` and `module` stays. An empty name is "(unnamed)".
 */
void tidei_nvtx_name_clean(const char *name, char *out);

/* Write a wide text (UTF-32) as UTF-8, cut to `bytes` with the NUL; what is no character becomes U+FFFD. */
void tidei_nvtx_name_utf8(const wchar_t *wide, char *out, size_t bytes);

#endif
