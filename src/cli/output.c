#include "cli/commands.h"

#include "cli/message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int command_finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_OK;
    if (errno != EPIPE)
        message_error("cannot write the output: %s", strerror(errno));
    return STATUS_FAILED;
}
