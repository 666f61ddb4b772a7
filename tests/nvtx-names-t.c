/* Tests src/nvtx/names.c: names of ranges, cleaned so that few different ones are left, and wide texts as UTF-8. */
#include <stdio.h>
#include <string.h>

#include "src/nvtx/names.h"
#include "tap.h"

static const struct {
    const char *name, *clean;
} cases[] = {
    { "forward", "forward" },
    { "aten::addmm, seq = 1, op_id = 29", "aten::addmm" },
    { "aten::addmm, op_id = 29", "aten::addmm" },
    { "aten::addmm, seq = 1, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0)]", "aten::addmm" },
    { "aten::mm, sizes = [[2, 3]]", "aten::mm" },
    { "autograd::engine::evaluate_function: AddmmBackward0, seq = 7",
      "autograd::engine::evaluate_function: AddmmBackward0" },
    { "batch, sequence", "batch, sequence" },
    { "XlaModule:#hlo_module=jit_f,program_id=12#", "XlaModule:jit_f" },
    { "XlaPass:#name=algsimp,module=jit_f,program_id=3#", "XlaPass:algsimp" },
    { "Thunk:#name=jit(f)/dot,x,hlo_op=dot.1#", "Thunk:jit(f)/dot,x" },
    { "XlaCompile:#program_id=3,module=jit_g#", "XlaCompile:jit_g" },
    { "TraceMe#step_num=17#", "TraceMe" },
    { "#step_num=17#", "(unnamed)" },
    { "#hlo_module=jit_f#", "jit_f" },
    { "##", "(unnamed)" },
    { "XlaModule:#name=#", "XlaModule" },
    { "C#", "C#" },
    { "step #3", "step #3" },
    { "#", "#" },
    { "", "(unnamed)" },
    { ", seq = 4", "(unnamed)" },
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

int
main(void)
{
    char clean[TIDEI_NVTX_NAME_BYTES], text[16], longest[400];

    plan((int)CASES + 6);
    for (size_t i = 0; i < CASES; i++) {
        char sentence[200];

        snprintf(sentence, sizeof(sentence), "the range %s has the tag %s", cases[i].name, cases[i].clean);
        for (char *at = sentence; *at != '\0'; at++)
            *at = *at == '#' ? '%' : *at; /* in TAP the sign begins a directive */
        tidei_nvtx_name_clean(cases[i].name, clean);
        is_string(clean, cases[i].clean, sentence);
    }
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    tidei_nvtx_name_clean(longest, clean);
    is_u64(strlen(clean), TIDEI_NVTX_NAME_BYTES - 1, "a long name is cut to 255 bytes");
    memcpy(longest + 254, "\xc3\xa9", 2);
    tidei_nvtx_name_clean(longest, clean);
    is_u64(strlen(clean), 254, "a long name is cut at the end of a character");
    tidei_nvtx_name_utf8(L"a\u00e9\u20ac\U0001f600", text, sizeof(text));
    is_string(text, "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "a wide text becomes UTF-8");
    tidei_nvtx_name_utf8((const wchar_t[]){ 0xd800, 0x110000, 'b', 0 }, text, sizeof(text));
    is_string(text,
              "\xef\xbf\xbd\xef\xbf\xbd"
              "b",
              "what is no character becomes U+FFFD");
    tidei_nvtx_name_utf8(L"abcd\u20ac", text, 7);
    is_string(text, "abcd", "a wide text is cut at the end of a character");
    tidei_nvtx_name_utf8(L"", text, sizeof(text));
    is_string(text, "", "an empty wide text is empty");
    return done();
}
