/* What the guard needs of the machine. */
#include "guard/guard.h"

#include "base/err.h"
#include "base/file.h"
#include "guard/notify/filter.h"
#include "guard/nvidia/branch.h"
#include "guard/nvidia/nvml.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define KERNEL_MAJOR 5
#define KERNEL_MINOR 19
#define FIXED_MAJOR  6
#define FIXED_MINOR  18

#define SAY(finding, ...) snprintf((finding)->text, sizeof((finding)->text), __VA_ARGS__)

static bool is_older(int major, int minor, int than_major, int than_minor)
{
    return major < than_major || (major == than_major && minor < than_minor);
}

static void preflight_kernel(struct guard_finding *finding)
{
    struct utsname name;
    int major = 0, minor = 0;

    if (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2) {
        finding->rc = 1;
        SAY(finding, "the kernel does not say its version");
        return;
    }
    if (is_older(major, minor, KERNEL_MAJOR, KERNEL_MINOR)) {
        finding->rc = -ENOSYS;
        SAY(finding,
            "Linux %s: the guard needs %d.%d or later, where a signal cannot make a call happen "
            "twice; "
            "update the kernel, or run without --guard",
            name.release, KERNEL_MAJOR, KERNEL_MINOR);
        return;
    }
    if (is_older(major, minor, FIXED_MAJOR, FIXED_MINOR)) {
        finding->rc = 1;
        SAY(finding,
            "Linux %s: before %d.%d a signal that comes right after the guard's answer can make a "
            "call happen twice, "
            "unless the distribution has the fix (\"seccomp: Fix a race with WAIT_KILLABLE_RECV if "
            "the tracer replies "
            "too fast\")",
            name.release, FIXED_MAJOR, FIXED_MINOR);
        return;
    }
    SAY(finding, "Linux %s", name.release);
}

static void preflight_seccomp(struct guard_finding *finding)
{
    char error[64];

    finding->rc = filter_supported();
    if (finding->rc == 0)
        SAY(finding, "user notification can be had");
    else
        SAY(finding,
            "seccomp user notification cannot be had (%s): the kernel needs CONFIG_SECCOMP_FILTER, "
            "and a container's "
            "profile must allow seccomp(2)",
            err_text(finding->rc, error, sizeof(error)));
}

static void examine_driver(const char *device_dir, struct guard_finding *finding)
{
    const struct rm_branch *branch;
    struct rm_version version;
    char known[BRANCH_LIST_BYTES];

    finding->rc = branch_read(device_dir, &version, &branch);
    branch_list(known, sizeof(known));
    if (finding->rc == 0)
        SAY(finding, "%s%s", version.text, version.open_modules ? " (open kernel modules)" : "");
    else if (finding->rc == -ENOENT)
        SAY(finding,
            "driver %s is of a branch that the guard does not know (it knows %s): use one of "
            "these, a newer vgpu, or "
            "run without --guard",
            version.text, known);
    else if (finding->rc == -ENODEV)
        SAY(finding, "NVIDIA's driver is not loaded (no /proc/driver/nvidia/version)");
    else
        SAY(finding, "the driver's version cannot be read from /proc/driver/nvidia/version");
}

static bool may_trace_all(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    return syscall(SYS_capget, &head, data) == 0 &&
           data[CAP_SYS_PTRACE / 32].effective & 1u << CAP_SYS_PTRACE % 32;
}

static void preflight_ptrace(struct guard_finding *finding)
{
    char text[16] = "0";
    size_t length;
    int scope;

    /* Without the file there is no Yama, and no scope. */
    file_read_small("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text), &length);
    scope = atoi(text);
    if (scope >= 3 || (scope == 2 && !may_trace_all())) {
        finding->rc = -EPERM;
        SAY(finding,
            "kernel.yama.ptrace_scope is %d: the supervisor may not look into the program; set it "
            "to 1, or run "
            "vgpu with CAP_SYS_PTRACE",
            scope);
        return;
    }
    if (syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILES, 0, 0) != 0) {
        finding->rc = -ENOSYS;
        SAY(finding, "kcmp(2) does not work: the kernel needs CONFIG_KCMP, and a container's "
                     "profile must allow it");
        return;
    }
    SAY(finding, "the supervisor may look into the program (ptrace_scope %d)", scope);
}

/* Only strict mode needs it, so it is never a reason not to work. */
static void preflight_nvml(const char *given, struct guard_finding *finding)
{
    static const char advice[] =
        "--guard=strict does not run without it, the other modes do not compare what they "
        "account for with its figures; give its path in VGPU_NVML";
    char path[4096];
    const char *why;

    finding->rc = nvml_find(given, path, sizeof(path), &why) < 0;
    if (finding->rc)
        SAY(finding, "%.110s%s: %s", path, why, advice);
    else
        SAY(finding, "%.300s", path);
}

static void preflight_hmm(struct guard_finding *finding)
{
    char text[8];
    size_t length;
    int rc = file_read_small("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", text,
                             sizeof(text), &length);

    if (rc < 0) {
        finding->rc = 1;
        SAY(finding, "nvidia-uvm is not loaded, or has no such parameter");
    } else if (text[0] == 'Y' || text[0] == '1') {
        SAY(finding, "ordinary memory does not move to the GPU");
    } else {
        finding->rc = 1;
        SAY(finding, "not set: on kernels with HMM, memory of malloc() that GPUs use can move to "
                     "the GPU, where no "
                     "quota sees it; load nvidia-uvm with uvm_disable_hmm=1");
    }
}

void guard_preflight(const char *device_dir, const char *nvml,
                     struct guard_finding ret_findings[GUARD_FACTS])
{
    memset(ret_findings, 0, GUARD_FACTS * sizeof(*ret_findings));
    preflight_kernel(&ret_findings[GUARD_FACT_KERNEL]);
    preflight_seccomp(&ret_findings[GUARD_FACT_SECCOMP]);
    examine_driver(device_dir, &ret_findings[GUARD_FACT_DRIVER]);
    preflight_ptrace(&ret_findings[GUARD_FACT_PTRACE]);
    preflight_nvml(nvml, &ret_findings[GUARD_FACT_NVML]);
    preflight_hmm(&ret_findings[GUARD_FACT_HMM]);
}
