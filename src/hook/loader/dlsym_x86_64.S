/* dlsym and dlvsym for x86-64; see dlsym.h. */

        .section .note.GNU-stack, "", @progbits
        .text

/*
 * ENTRY name, libc, version: calls dlsym_route(handle, name, version, return address) and then either returns what it
 * answered or jumps to *libc with the stack and the argument registers of the call.
 */
        .macro  ENTRY name, libc, has_version
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        movq    (%rsp), %rcx
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        .if     \has_version == 0
        xorl    %edx, %edx
        .endif
        call    dlsym_route
        testq   %rdx, %rdx
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        jz      1f
        ret
1:      movq    \libc(%rip), %rcx
        testq   %rcx, %rcx
        jz      2f
        jmp     *%rcx
2:      xorl    %eax, %eax
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        ENTRY   dlsym, dlsym_next, 0
        ENTRY   dlvsym, dlvsym_next, 1
