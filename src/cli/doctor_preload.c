#include "cli/doctor.h"

#include "base/setting.h"
#include "cli/layout.h"
#include "cli/program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sys/wait.h>
#include <unistd.h>

int doctor_probe(const char *library)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    bool found = false;
    struct stat st;

    if (!maps || stat(library, &st))
        return 1;
    while (!found && fgets(line, sizeof(line), maps)) {
        unsigned device_major, device_minor;
        unsigned long long inode;

        /* By inode: /proc may show another path than the given one. */
        found = sscanf(line, "%*s %*s %*s %x:%x %llu", &device_major, &device_minor, &inode) == 3 &&
                inode == st.st_ino && strstr(line, strrchr(library, '/') + 1) != NULL;
    }
    fclose(maps);
    return !found;
}

/* Runs this command as a child with the library preloaded. Returns its exit status, or -1. */
static int start_probe(const char *library)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        if (setenv("LD_PRELOAD", library, 1) == 0)
            execl("/proc/self/exe", "vgpu", DOCTOR_PROBE, library, (char *)NULL);
        _exit(125);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 125))
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void report_probe(struct doctor *doctor, const char *library)
{
    int status = start_probe(library);

    if (status == 0)
        doctor_add(doctor, DOCTOR_OK, "preload", NULL,
                   "the library is in a program started with it");
    else if (status < 0)
        doctor_add(doctor, DOCTOR_WARN, "preload", "mount /proc",
                   "could not be tried: this command cannot start itself");
    else if (status > 128)
        doctor_add(doctor, DOCTOR_FAIL, "preload",
                   "use the library that belongs to this command, and unset VGPU_LIBRARY",
                   "a program started with the library dies of signal %d (%s)", status - 128,
                   strsignal(status - 128));
    else
        doctor_add(doctor, DOCTOR_FAIL, "preload",
                   "run `LD_DEBUG=libs LD_PRELOAD=... /bin/true` to see why; usual are an older "
                   "glibc than the library "
                   "was built "
                   "for, another architecture, or a file system mounted noexec",
                   "the library is not in a program started with it: no quota would hold");
}

/* A library before ours in LD_PRELOAD may define a dlsym of its own, which bypasses ours. */
static void report_order(struct doctor *doctor)
{
    static const char separators[] = ": \t";
    const char *list = setting_text(SETTING_PRELOAD);
    size_t before = list ? strspn(list, separators) : 0;
    const char *first = list ? list + before : "", *own = strstr(first, "libvgpu");
    size_t length = strcspn(first, separators);

    if (own && own >= first + length)
        doctor_add(doctor, DOCTOR_WARN, "preload",
                   "put libvgpu.so first in LD_PRELOAD; `vgpu run` does",
                   "LD_PRELOAD has %.*s before the library: if that stands in front of dlsym, no "
                   "limit holds",
                   (int)(length < 256 ? length : 256), first);
}

void doctor_library(struct doctor *doctor)
{
    char library[PATH_MAX], trace[PATH_MAX];
    int error = layout_library(false, library, sizeof(library));

    if (error == -EINVAL) {
        doctor_add(doctor, DOCTOR_FAIL, "library",
                   "install vgpu elsewhere, or give another path in VGPU_LIBRARY",
                   "the path %.512s has a space or a colon, at which the loader would cut it",
                   library);
        return;
    }
    if (error) {
        doctor_add(doctor, DOCTOR_FAIL, "library", "install it, or give its path in VGPU_LIBRARY",
                   "libvgpu.so was not found%s%.512s", *library ? " at " : "", library);
        return;
    }
    if (layout_library(true, trace, sizeof(trace)))
        doctor_add(doctor, DOCTOR_WARN, "library", "install it if `vgpu run --trace` is wanted",
                   "%.512s; libvgpu-trace.so was not found", library);
    else
        doctor_add(doctor, DOCTOR_OK, "library", NULL, "%.512s", library);
    report_probe(doctor, library);
    report_order(doctor);
}

void doctor_program(struct doctor *doctor, const char *program)
{
    static struct program_info info;
    char path[PATH_MAX];
    int error = program_find(program, path, sizeof(path));
    const char *obstacle;

    if (error) {
        doctor_add(doctor, DOCTOR_FAIL, "program",
                   error == -ENOENT ? "give its path, or add its folder to PATH"
                                    : "make it executable (chmod +x)",
                   "%.512s %s", program, error == -ENOENT ? "was not found" : "cannot be executed");
        return;
    }
    program_examine(path, &info);
    obstacle = program_obstacle(info.binding);
    if (obstacle)
        doctor_add(
            doctor, DOCTOR_FAIL, "program",
            info.binding == PROGRAM_PRIVILEGED
                ? "run it as its owner, or name the library in /etc/ld.so.preload"
            : info.binding == PROGRAM_32BIT
                ? "use a 64-bit build; it cannot be bound, and `vgpu run --guard` does not start it"
                : "use `vgpu run --guard`, or a dynamically linked glibc build for this machine",
            "%.512s %s", info.file, obstacle);
    else if (info.binding == PROGRAM_UNKNOWN)
        doctor_add(doctor, DOCTOR_WARN, "program", "name the program that runs it",
                   "%.512s is no program file that could be examined", info.file);
    else if (info.is_script)
        doctor_add(doctor, DOCTOR_OK, "program", NULL,
                   "%.300s is run by %.300s, which takes the library", path, info.file);
    else
        doctor_add(doctor, DOCTOR_OK, "program", NULL, "%.512s takes the library", path);
}
