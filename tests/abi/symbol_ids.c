/* Which rows are twins for the calling thread's default stream, against their names. */
#include "hook/loader/symbol_ids.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
#define HOOK(sym, handler) #sym,
#define PASS(sym)          #sym,
#include "driver.def"
};

int main(void)
{
    int twins = 0;

    for (int row = 0; row < SYMBOL_COUNT; row++) {
        size_t length = strlen(names[row]);
        const char *end = length > 5 ? names[row] + length - 5 : "";
        bool twin = strcmp(end, "_ptsz") == 0 || strcmp(end, "_ptds") == 0;

        if (twin != hook_symbol_per_thread((enum hook_symbol)row)) {
            printf("FAIL: %s is taken for %s\n", names[row], twin ? "none" : "one");
            return 1;
        }
        twins += twin;
    }
    printf("%d twins\n", twins);
    return twins > 50 ? 0 : 1;
}
