/* A libnvidia-ml.so.1 that a program has put where its user's libraries are: says that it was
 * loaded. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void __attribute__((constructor)) loaded(void)
{
    const char *mark = getenv("OTHER_NVML_MARK");
    int fd = mark ? open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;

    if (fd >= 0)
        close(fd);
}
