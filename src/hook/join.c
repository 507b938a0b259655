/* Each process that loads the library is in its instance from then on, whether or not it uses a GPU. */
#include "base/cleanup.h"
#include "core/instance.h"
#include "core/member.h"

#include <limits.h>
#include <stdlib.h>

__attribute__((constructor)) static void join_at_load(void)
{
    KEEP_ERRNO;
    char folder[PATH_MAX];

    /* A set-uid program opens nothing that its caller names. */
    if (secure_getenv(INSTANCE_VARIABLE) && instance_folder(folder, sizeof(folder)) == 0)
        member_join(folder);
}
