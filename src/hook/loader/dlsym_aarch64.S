/* dlsym and dlvsym for aarch64; see dlsym.h. */

        .section .note.GNU-stack, "", %progbits
        .text

/*
 * ENTRY name, libc, version: calls dlsym_route(handle, name, version, return address) and then either returns what it
 * answered or jumps to *libc with the stack, the argument registers and the link register of the call.
 */
        .macro  ENTRY name, libc, has_version
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
        hint    #34                     /* bti c */
        stp     x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset x29, -48
        .cfi_offset x30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        .if     \has_version == 0
        mov     x2, xzr
        .endif
        mov     x3, x30
        bl      dlsym_route
        mov     x9, x1
        cbnz    x9, 1f
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
1:      ldp     x29, x30, [sp], #48
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        cbnz    x9, 2f
        adrp    x16, \libc
        ldr     x16, [x16, :lo12:\libc]
        cbz     x16, 3f
        br      x16
3:      mov     x0, xzr
2:      ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        ENTRY   dlsym, dlsym_next, 0
        ENTRY   dlvsym, dlvsym_next, 1
