/*
 * The C library's floor: one build of libvgpu.so serves systems from glibc 2.17 (2012) on. A
 * preloaded library that asks for a symbol version which the system lacks makes every program fail,
 * /bin/true included.
 *
 * glibc 2.34 moved libdl and libpthread into libc and gave their functions new versions; the old
 * ones are still there. This header binds to the old ones. It is force-included into every object
 * that ends in the library; names that an object does not use cost nothing. Functions newer than
 * the floor must not be called at all: a test reads the library's symbol table.
 */
#ifndef VGPU_HOOK_LOADER_GLIBC_FLOOR_H
#define VGPU_HOOK_LOADER_GLIBC_FLOOR_H

#if defined(__linux__) && defined(__GNUC__) && !defined(__ASSEMBLER__)

#if defined(__x86_64__)
#define FLOOR_AS(name, old_name, x86_version)                                                      \
    __asm__(".symver " #name "," #old_name "@GLIBC_" #x86_version);
#elif defined(__aarch64__) /* the port began with 2.17 */
#define FLOOR_AS(name, old_name, x86_version) __asm__(".symver " #name "," #old_name "@GLIBC_2.17");
#else
#error "which glibc version did this machine begin with?"
#endif

#define FLOOR(name, x86_version) FLOOR_AS(name, name, x86_version)

/* clang-format off */
/* what the headers of newer systems turn old names into */
FLOOR_AS(__isoc23_strtol, strtol, 2.2.5)
FLOOR_AS(__isoc23_strtoul, strtoul, 2.2.5)
FLOOR_AS(__isoc23_strtoll, strtoll, 2.2.5)
FLOOR_AS(__isoc23_strtoull, strtoull, 2.2.5)
FLOOR_AS(__isoc23_sscanf, sscanf, 2.2.5)
FLOOR_AS(__isoc23_fscanf, fscanf, 2.2.5)
FLOOR_AS(__isoc23_vsscanf, vsscanf, 2.2.5)
FLOOR_AS(fcntl64, fcntl, 2.2.5)

/* what moved to libc */
FLOOR(__pthread_key_create, 2.2.5)
FLOOR(dlclose, 2.2.5)
FLOOR(dlerror, 2.2.5)
FLOOR(glob, 2.2.5)
FLOOR(pthread_attr_getguardsize, 2.2.5)
FLOOR(pthread_attr_getstack, 2.2.5)
FLOOR(pthread_attr_getstackaddr, 2.2.5)
FLOOR(pthread_attr_getstacksize, 2.2.5)
FLOOR(pthread_attr_setguardsize, 2.2.5)
FLOOR(pthread_attr_setstack, 2.2.5)
FLOOR(pthread_attr_setstackaddr, 2.2.5)
FLOOR(pthread_barrier_destroy, 2.2.5)
FLOOR(pthread_barrier_init, 2.2.5)
FLOOR(pthread_barrier_wait, 2.2.5)
FLOOR(pthread_barrierattr_destroy, 2.2.5)
FLOOR(pthread_barrierattr_init, 2.2.5)
FLOOR(pthread_barrierattr_setpshared, 2.2.5)
FLOOR(pthread_cancel, 2.2.5)
FLOOR(pthread_condattr_getpshared, 2.2.5)
FLOOR(pthread_condattr_setpshared, 2.2.5)
FLOOR(pthread_getattr_np, 2.2.5)
FLOOR(pthread_getconcurrency, 2.2.5)
FLOOR(pthread_getcpuclockid, 2.2.5)
FLOOR(pthread_getspecific, 2.2.5)
FLOOR(pthread_join, 2.2.5)
FLOOR(pthread_key_create, 2.2.5)
FLOOR(pthread_key_delete, 2.2.5)
FLOOR(pthread_kill, 2.2.5)
FLOOR(pthread_mutex_timedlock, 2.2.5)
FLOOR(pthread_mutex_trylock, 2.2.5)
FLOOR(pthread_mutexattr_destroy, 2.2.5)
FLOOR(pthread_mutexattr_getpshared, 2.2.5)
FLOOR(pthread_mutexattr_gettype, 2.2.5)
FLOOR(pthread_mutexattr_init, 2.2.5)
FLOOR(pthread_mutexattr_setpshared, 2.2.5)
FLOOR(pthread_mutexattr_settype, 2.2.5)
FLOOR(pthread_once, 2.2.5)
FLOOR(pthread_rwlock_destroy, 2.2.5)
FLOOR(pthread_rwlock_init, 2.2.5)
FLOOR(pthread_rwlock_rdlock, 2.2.5)
FLOOR(pthread_rwlock_timedrdlock, 2.2.5)
FLOOR(pthread_rwlock_timedwrlock, 2.2.5)
FLOOR(pthread_rwlock_tryrdlock, 2.2.5)
FLOOR(pthread_rwlock_trywrlock, 2.2.5)
FLOOR(pthread_rwlock_unlock, 2.2.5)
FLOOR(pthread_rwlock_wrlock, 2.2.5)
FLOOR(pthread_rwlockattr_destroy, 2.2.5)
FLOOR(pthread_rwlockattr_getkind_np, 2.2.5)
FLOOR(pthread_rwlockattr_getpshared, 2.2.5)
FLOOR(pthread_rwlockattr_init, 2.2.5)
FLOOR(pthread_rwlockattr_setkind_np, 2.2.5)
FLOOR(pthread_rwlockattr_setpshared, 2.2.5)
FLOOR(pthread_setconcurrency, 2.2.5)
FLOOR(pthread_setspecific, 2.2.5)
FLOOR(pthread_spin_destroy, 2.2.5)
FLOOR(pthread_spin_init, 2.2.5)
FLOOR(pthread_spin_lock, 2.2.5)
FLOOR(pthread_spin_trylock, 2.2.5)
FLOOR(pthread_spin_unlock, 2.2.5)
FLOOR(pthread_testcancel, 2.2.5)
FLOOR(sem_close, 2.2.5)
FLOOR(sem_destroy, 2.2.5)
FLOOR(sem_getvalue, 2.2.5)
FLOOR(sem_init, 2.2.5)
FLOOR(sem_open, 2.2.5)
FLOOR(sem_post, 2.2.5)
FLOOR(sem_timedwait, 2.2.5)
FLOOR(sem_trywait, 2.2.5)
FLOOR(sem_unlink, 2.2.5)
FLOOR(sem_wait, 2.2.5)
FLOOR(dladdr1, 2.3.3)
FLOOR(dlinfo, 2.3.3)
FLOOR(pthread_barrierattr_getpshared, 2.3.3)
FLOOR(pthread_condattr_getclock, 2.3.3)
FLOOR(pthread_condattr_setclock, 2.3.3)
FLOOR(pthread_tryjoin_np, 2.3.3)
FLOOR(timer_create, 2.3.3)
FLOOR(timer_delete, 2.3.3)
FLOOR(timer_gettime, 2.3.3)
FLOOR(timer_settime, 2.3.3)
FLOOR(dlmopen, 2.3.4)
FLOOR(pthread_attr_getaffinity_np, 2.3.4)
FLOOR(pthread_attr_setaffinity_np, 2.3.4)
FLOOR(pthread_getaffinity_np, 2.3.4)
FLOOR(pthread_setaffinity_np, 2.3.4)
FLOOR(pthread_setschedprio, 2.3.4)
FLOOR(pthread_mutex_getprioceiling, 2.4)
FLOOR(pthread_mutex_setprioceiling, 2.4)
FLOOR(pthread_mutexattr_getprioceiling, 2.4)
FLOOR(pthread_mutexattr_getprotocol, 2.4)
FLOOR(pthread_mutexattr_setprioceiling, 2.4)
FLOOR(pthread_mutexattr_setprotocol, 2.4)
FLOOR(pthread_sigqueue, 2.11)
FLOOR(pthread_getname_np, 2.12)
FLOOR(pthread_mutex_consistent, 2.12)
FLOOR(pthread_mutexattr_getrobust, 2.12)
FLOOR(pthread_mutexattr_setrobust, 2.12)
FLOOR(pthread_setname_np, 2.12)
/* clang-format on */

#undef FLOOR
#undef FLOOR_AS

#endif
#endif
