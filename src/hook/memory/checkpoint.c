/*
 * Checkpoints: the driver takes a process's memory off the devices and brings it back. Usually
 * another process asks for it, while the process itself stands still in the driver. Memory that is
 * away is charged to nobody, and returns only if it fits.
 */
#include "hook/memory/admission.h"
#include "account/refuse.h"

CUresult hook_checkpoint_checkpoint(enum hook_symbol sym, int pid, CUcheckpointCheckpointArgs *args)
{
    struct vgpu_ledger *ledger = hook_ledger();
    CUresult result = REAL(sym, checkpoint_checkpoint)(pid, args);

    if (result == CUDA_SUCCESS && ledger != NULL)
        ledger_put_away(ledger, pid);
    return result;
}

CUresult hook_checkpoint_restore(enum hook_symbol sym, int pid, CUcheckpointRestoreArgs *args)
{
    struct vgpu_ledger *ledger = hook_ledger();
    int back = 0;
    uint64_t bytes;
    unsigned vdev;
    CUresult result;

    if (ledger != NULL)
        back = ledger_bring_back(ledger, pid, &vdev, &bytes);
    if (back < 0) {
        ledger_refuse(ledger, vdev, bytes, hook_symbol_name(sym));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = REAL(sym, checkpoint_restore)(pid, args);
    if (result != CUDA_SUCCESS && back > 0)
        ledger_put_away(ledger, pid);
    return result;
}
