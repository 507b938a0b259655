/* From a trapped call to its answer. */
#include "guard/nvidia/account.h"
#include "guard/nvidia/lifetime.h"
#include "guard/nvidia/request.h"

#include <errno.h>

const struct device_names nvidia_device_names = {.ctl = "nvidiactl",
                                                 .uvm = "nvidia-uvm",
                                                 .gpu = "nvidia",
                                                 .major = RM_MAJOR,
                                                 .ctl_minor = RM_MINOR_CTL,
                                                 .uvm_line = " nvidia-uvm\n",
                                                 .caps_line = " nvidia-caps\n"};

int request_identify(struct request *request)
{
    const struct trap *trap = request->trap;
    int rc = lifetime_file(request->nvidia, trap->tid, trap->fd, &request->file);

    if (rc == 0)
        rc = lifetime_process(request->nvidia, trap->tid, &request->process);
    if (rc == 0 && !request->file->owner)
        request->file->owner = request->process->owner;
    return rc;
}

static const struct request_steps *steps_of(const struct trap *trap)
{
    if (trap->is_mmap)
        return &managed_steps;
    return trap->cmd == UVM_MAP_EXTERNAL_ALLOCATION || trap->cmd == UVM_FREE ||
                   trap->cmd == UVM_UNMAP_EXTERNAL
               ? &uvm_steps
               : &call_steps;
}

int nvidia_handle(void *arg, const struct trap *trap)
{
    static struct request request; /* the trap thread's; large */
    const struct request_steps *steps = steps_of(trap);
    int rc;

    request.nvidia = arg;
    request.trap = trap;
    rc = steps->read(&request);
    if (rc)
        return rc;
    rc = trap_begin(request.nvidia->notify) ? steps->act(&request) : -ENOSYS;
    account_settle(request.nvidia);
    trap_end(request.nvidia->notify);
    return rc ? rc : steps->write(&request);
}
