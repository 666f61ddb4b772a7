/* Reports what a process held of each device, and what else was in use there. */
#include "config.h"

#include <stdio.h>

#include "viewer/base/output.h"
#include "viewer/commands/account.h"

/* Append "5 MiB plain, 32 MiB async" of a device, or of none; those that are tracked, or the others. */
static void
account_words(const struct account *account, int64_t device, bool tracked, char *out, size_t size)
{
    size_t length = 0;

    out[0] = '\0';
    for (size_t i = 0; i < account->kind_count && length < size; i++) {
        const struct account_kind *kind = &account->kinds[i];
        struct output_figure bytes;

        if (kind->device == device && kind->is_tracked == tracked && kind->bytes != 0)
            length += (size_t)snprintf(out + length, size - length, "%s%s %s", length != 0 ? ", " : "",
                                       output_size(&bytes, kind->bytes), kind->word);
    }
}

/* Of which moment the figures of a device are. */
static void
account_report_moment(struct report *report, const struct account *account, const struct account_device *device)
{
    struct output_figure moment, before;

    if (device->ns < account->end_ns)
        report_label(report, "as of", "GPU %lld: %s, %s before the end", (long long)device->device,
                     output_time(&moment, device->ns), output_time(&before, account->end_ns - device->ns));
    else
        report_label(report, "as of", "GPU %lld: %s, the end", (long long)device->device,
                     output_time(&moment, device->ns));
}

/* What of the device in use the process's own calls do not explain. */
static void
account_report_rest(struct report *report, const struct account_device *device)
{
    struct output_figure bytes, before, since;
    int64_t signed_rest = account_unaccounted(device);
    uint64_t rest = (uint64_t)signed_rest;

    if (signed_rest < 0)
        report_label(report, "unaccounted", "GPU %lld: none: %s is tracked beyond what is in use",
                     (long long)device->device, output_size(&bytes, -rest));
    else if (device->has_found)
        report_label(report, "unaccounted",
                     "GPU %lld: %s: %s in use before the first allocation (contexts, other processes), %s since "
                     "(modules, other libraries)",
                     (long long)device->device, output_size(&bytes, rest), output_size(&before, account_before(device)),
                     output_size(&since, rest - account_before(device)));
    else
        report_label(report, "unaccounted", "GPU %lld: %s: contexts, modules, other libraries and processes",
                     (long long)device->device, output_size(&bytes, rest));
}

static void
account_report_device(struct report *report, const struct account *account, const struct account_device *device)
{
    struct output_figure bytes, total;
    char words[512];

    account_words(account, device->device, true, words, sizeof(words));
    report_label(report, "tracked", "GPU %lld: %s%s%s", (long long)device->device,
                 output_size(&bytes, device->tracked_bytes), words[0] != '\0' ? ": " : "", words);
    if (!device->has_use)
        return;
    report_label(report, "device used", "GPU %lld: %s of %s", (long long)device->device,
                 output_size(&bytes, device->used_bytes), output_size(&total, device->total_bytes));
    account_report_rest(report, device);
}

void
account_report(struct report *report, const struct account *account)
{
    char words[512];

    for (size_t i = 0; account->is_process && i < account->device_count; i++) {
        account_report_device(report, account, &account->devices[i]);
        account_report_moment(report, account, &account->devices[i]);
    }
    for (size_t i = 0; account->is_process && i < account->device_count; i++) {
        account_words(account, account->devices[i].device, false, words, sizeof(words));
        if (words[0] != '\0')
            report_label(report, "not tracked", "GPU %lld: %s", (long long)account->devices[i].device, words);
    }
    account_words(account, -1, false, words, sizeof(words));
    if (words[0] != '\0')
        report_label(report, "host", "%s", words);
}

void
account_report_tables(struct report *report, const struct account *account)
{
    static const struct report_column columns[] = {
        { "device", NULL, REPORT_COUNT },      { "tracked_bytes", NULL, REPORT_SIZE },
        { "used_bytes", NULL, REPORT_SIZE },   { "unaccounted_bytes", NULL, REPORT_CHANGE },
        { "before_bytes", NULL, REPORT_SIZE }, { "ns", NULL, REPORT_TIME },
    };
    static const struct report_column kind_columns[] = {
        { "kind", NULL, REPORT_TEXT },
        { "device", NULL, REPORT_COUNT },
        { "bytes", NULL, REPORT_SIZE },
        { "tracked", NULL, REPORT_FLAG },
    };

    REPORT_TABLE(report, "account", NULL, columns);
    for (size_t i = 0; account->is_process && i < account->device_count; i++) {
        const struct account_device *device = &account->devices[i];

        REPORT_ROW(report, cell_signed(device->device), cell_unsigned(device->tracked_bytes),
                   device->has_use ? cell_unsigned(device->used_bytes) : cell_none(),
                   device->has_use ? cell_signed(account_unaccounted(device)) : cell_none(),
                   device->has_use && device->has_found ? cell_unsigned(account_before(device)) : cell_none(),
                   cell_signed(device->ns));
    }
    REPORT_TABLE(report, "account_kinds", NULL, kind_columns);
    for (size_t i = 0; i < account->kind_count; i++) {
        const struct account_kind *kind = &account->kinds[i];

        REPORT_ROW(report, cell_text(kind->word), kind->device >= 0 ? cell_signed(kind->device) : cell_none(),
                   cell_unsigned(kind->bytes), cell_unsigned(kind->is_tracked));
    }
}
