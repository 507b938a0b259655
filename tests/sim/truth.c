/* The two accounts that every test compares: the simulator's ledger, by simctl, and the instance's
 * region. */
#include "harness.h"
#include <unistd.h>

static const char *group(void)
{
    const char *name = getenv("SIMGPU_GROUP");
    return name ? name : "-";
}

static char *simctl(const char *command, const char *argument)
{
    const char *program = getenv("TEST_SIMCTL");
    CHECK(program != NULL);
    const char *argv[] = {program, command, argument, NULL};
    return capture_output(argv);
}

/* The number behind " key=" in a line; 0 where it is not there. */
static uint64_t number_of(const char *line, const char *key)
{
    char pattern[64];
    const char *end = strchrnul(line, '\n');
    int length = snprintf(pattern, sizeof pattern, " %s=", key);
    const char *at = strstr(line, pattern);
    return at && at < end ? strtoull(at + length, NULL, 10) : 0;
}

static bool has_group(const char *line)
{
    char pattern[128];
    const char *end = strchrnul(line, '\n');
    snprintf(pattern, sizeof pattern, " group=%s ", group());
    const char *at = strstr(line, pattern);
    return at && at < end;
}

static const char *next_line(const char *line)
{
    line = strchrnul(line, '\n');
    return *line ? line + 1 : line;
}

void truth_read(int device, struct truth *ret_truth)
{
    char *text = simctl("ledger", NULL), start[128];
    size_t length = (size_t)snprintf(start, sizeof start, "group %s device=%d ", group(), device);
    *ret_truth = (struct truth){0};
    for (const char *line = text; *line; line = next_line(line)) {
        if (!strncmp(line, start, length)) {
            ret_truth->used_bytes = number_of(line, "total");
            ret_truth->peak_bytes = number_of(line, "peak");
        } else if (!strncmp(line, "process ", 8) && has_group(line) &&
                   number_of(line, "device") == (uint64_t)device) {
            ret_truth->procs += number_of(line, "total") > 0;
        }
    }
    free(text);
}

uint64_t truth_used(int device)
{
    struct truth truth;
    truth_read(device, &truth);
    return truth.used_bytes;
}

uint64_t truth_orphan(int device)
{
    char *text = simctl("ledger", NULL), start[64];
    size_t length = (size_t)snprintf(start, sizeof start, "device %d ", device);
    uint64_t bytes = 0;
    for (const char *line = text; *line; line = next_line(line))
        if (!strncmp(line, start, length))
            bytes = number_of(line, "orphan");
    free(text);
    return bytes;
}

uint64_t truth_peak(int device)
{
    struct truth truth;
    truth_read(device, &truth);
    return truth.peak_bytes;
}

uint64_t truth_host(void)
{
    char *text = simctl("ledger", NULL);
    uint64_t bytes = 0;
    for (const char *line = text; *line; line = next_line(line))
        if (!strncmp(line, "process ", 8) && has_group(line))
            bytes += number_of(line, "host");
    free(text);
    return bytes;
}

uint64_t truth_process(int device, pid_t pid)
{
    char *text = simctl("ledger", NULL), start[64];
    size_t length =
        (size_t)snprintf(start, sizeof start, "process %d device=%d ", (int)pid, device);
    uint64_t bytes = 0;
    for (const char *line = text; *line; line = next_line(line))
        if (!strncmp(line, start, length) && number_of(line, "alive"))
            bytes += number_of(line, "total");
    free(text);
    return bytes;
}

uint64_t truth_calls(const char *symbol)
{
    char pid[32];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    char *text = simctl("calls", pid);
    uint64_t calls = 0;
    for (const char *line = text; *line; line = next_line(line))
        calls += number_of(line, symbol);
    free(text);
    return calls;
}

/* --- the region --- */

static char *instance_text(void)
{
    const char *argv[] = {getenv("TEST_INSTANCE_TOOL"), "show", getenv("TEST_INSTANCE"), NULL};
    CHECK(argv[0] != NULL && argv[2] != NULL);
    return capture_output(argv);
}

static uint64_t vdev_number(unsigned vdev, const char *key)
{
    char *text = instance_text(), start[64];
    size_t length = (size_t)snprintf(start, sizeof start, "vdev %u ", vdev);
    uint64_t value = 0;
    for (const char *line = text; *line; line = next_line(line))
        if (!strncmp(line, start, length))
            value = number_of(line, key);
    free(text);
    return value;
}

uint64_t region_used(unsigned vdev)
{
    return vdev_number(vdev, "used");
}

uint64_t region_refusals(unsigned vdev)
{
    return vdev_number(vdev, "refusals");
}

uint64_t region_held(unsigned vdev, pid_t pid)
{
    char *text = instance_text(), start[64];
    size_t length = (size_t)snprintf(start, sizeof start, "proc %d vdev=%u ", (int)pid, vdev);
    uint64_t held = 0;
    for (const char *line = text; *line; line = next_line(line))
        if (!strncmp(line, start, length))
            held += number_of(line, "held");
    free(text);
    return held;
}

unsigned region_procs(void)
{
    char *text = instance_text();
    unsigned count = 0;
    for (const char *line = text; *line; line = next_line(line))
        count += !strncmp(line, "proc ", 5) && strstr(line, " vdev=0 ") != NULL &&
                 strstr(line, " vdev=0 ") < strchrnul(line, '\n');
    free(text);
    return count;
}

/* The physical number behind a vdev's UUID, where TEST_UUIDS (in physical order) has it; else the
 * vdev's own. */
static int physical_of(const char *line, unsigned vdev)
{
    char uuid[64] = "";
    const char *at = strstr(line, " uuid="), *all = getenv("TEST_UUIDS");
    if (at)
        sscanf(at, " uuid=%63[^\n]", uuid);
    const char *found = all && *uuid ? strstr(all, uuid) : NULL;
    int number = 0;
    for (const char *c = all; found && c < found; c++)
        number += *c == ',';
    return found ? number : (int)vdev;
}

void check_agreement(void)
{
    if (!getenv("VGPU_INSTANCE") || !getenv("LD_PRELOAD"))
        return;
    char *text = instance_text();
    for (const char *line = text; *line; line = next_line(line)) {
        unsigned vdev = 0;
        if (sscanf(line, "vdev %u ", &vdev) != 1 || vdev > 15)
            continue;
        uint64_t region = number_of(line, "used");
        const char *uuid = strstr(line, " uuid=");
        if (region == 0 && (!uuid || uuid[6] == '\n'))
            continue; /* a vdev that nobody has used yet */
        int device = physical_of(line, vdev);
        uint64_t truth = truth_used(device) + truth_orphan(device);
        if (region != truth)
            fputs(text, stderr);
        if (region != truth)
            FAIL("vdev %u: the region says %" PRIu64 " (%.3f MiB), the driver holds %" PRIu64
                 " (%.3f MiB) on %d",
                 vdev, region, (double)region / (double)MIB, truth, (double)truth / (double)MIB,
                 device);
    }
    free(text);
}
