/* Messages, files and folders, fork detection. */
#include "unit.h"

#include "base/file.h"
#include "base/forkwatch.h"
#include "base/log.h"
#include "base/proc.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* What a child with this environment writes to stderr when it says one thing at each level. */
static int say_everything(void *arg)
{
    int *out = arg;

    dup2(*out, STDERR_FILENO);
    errno = 77;
    log_error("error %d", 1);
    log_notice("notice");
    log_warning("warning");
    log_info("info");
    log_debug("debug");
    return errno == 77 ? 0 : 1;
}

static void said_with(const char *vgpu, const char *libcuda, char *buffer, size_t buffer_bytes)
{
    int pipes[2];
    size_t length = 0;
    ssize_t got;
    pid_t pid;

    vgpu ? setenv("VGPU_LOG_LEVEL", vgpu, 1) : unsetenv("VGPU_LOG_LEVEL");
    libcuda ? setenv("LIBCUDA_LOG_LEVEL", libcuda, 1) : unsetenv("LIBCUDA_LOG_LEVEL");
    assert_int_equal(pipe(pipes), 0);
    pid = spawn(say_everything, &pipes[1]);
    close(pipes[1]);
    while ((got = read(pipes[0], buffer + length, buffer_bytes - 1 - length)) > 0)
        length += (size_t)got;
    buffer[length] = '\0';
    close(pipes[0]);
    assert_int_equal(finish(pid), 0);
}

TEST(log_levels)
{
    char said[512];

    said_with(NULL, NULL, said, sizeof(said));
    assert_string_equal(said, "vgpu: error 1\nvgpu: notice\nvgpu: warning\n");
    said_with("0", NULL, said, sizeof(said));
    assert_string_equal(said, "vgpu: error 1\n");
    said_with(NULL, "1", said, sizeof(said));
    assert_string_equal(said, "vgpu: error 1\nvgpu: notice\n");
    said_with("0", "4", said, sizeof(said));
    assert_string_equal(said, "vgpu: error 1\n");
    said_with("99", NULL, said, sizeof(said));
    assert_non_null(strstr(said, "vgpu: debug\n"));
    said_with("loud", NULL, said, sizeof(said));
    assert_string_equal(said, "vgpu: error 1\nvgpu: notice\nvgpu: warning\n");
}

static int say_a_long_line(void *arg)
{
    int *out = arg;
    char text[5000];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    dup2(*out, STDERR_FILENO);
    log_error("%s", text);
    return 0;
}

TEST(log_long_line)
{
    char said[8192];
    int pipes[2];
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe(pipes), 0);
    pid = spawn(say_a_long_line, &pipes[1]);
    got = read(pipes[0], said, sizeof(said)); /* one write */
    assert_true(got > 100 && got <= 1024);
    assert_int_equal(said[got - 1], '\n');
    assert_int_equal(finish(pid), 0);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(folders)
{
    const char *path = scratch_path("a/b/c"); /* made before the umask forbids it to us */
    mode_t old = umask(0777);
    struct stat st;
    int rc;

    rc = file_make_folders(path, 0700);
    umask(old);
    assert_int_equal(rc, 0);
    assert_int_equal(stat(scratch_path("a/b/c"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(file_make_folders(scratch_path("a/b/c"), 0700), 0);
    assert_int_equal(file_write_atomic(scratch_path("a/file"), "x", 1, 0600), 0);
    assert_int_equal(file_make_folders(scratch_path("a/file/d"), 0700), -ENOTDIR);
    assert_int_equal(file_make_folders(scratch_path("a/file"), 0700), -ENOTDIR);
}

TEST(small_files)
{
    char buffer[8];
    size_t length = 0;
    struct stat st;

    assert_int_equal(file_write_atomic(scratch_path("small"), "hello", 5, 0640), 0);
    assert_int_equal(stat(scratch_path("small"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(file_read_small(scratch_path("small"), buffer, sizeof(buffer), &length), 0);
    assert_string_equal(buffer, "hello");
    assert_int_equal(length, 5);
    assert_int_equal(file_read_small(scratch_path("small"), buffer, 3, &length), 0);
    assert_string_equal(buffer, "he");
    assert_int_equal(file_read_small(scratch_path("missing"), buffer, sizeof(buffer), &length),
                     -ENOENT);
    assert_int_equal(file_write_atomic(scratch_path("nowhere/small"), "x", 1, 0600), -ENOENT);
}

TEST(runtime_folder)
{
    char path[PATH_MAX];

    setenv("VGPU_RUNTIME_DIR", scratch_path("runtime"), 1);
    assert_int_equal(runtime_dir_make(path, sizeof(path)), 0);
    assert_string_equal(path, scratch_path("runtime"));
    assert_int_equal(access(path, W_OK), 0);
    setenv("VGPU_RUNTIME_DIR", "relative", 1);
    assert_int_equal(runtime_dir(path, sizeof(path)), -EINVAL);
    unsetenv("VGPU_RUNTIME_DIR");
    if (geteuid() == 0) {
        assert_int_equal(runtime_dir(path, sizeof(path)), 0);
        assert_string_equal(path, "/run/vgpu");
    }
    assert_int_equal(runtime_dir(path, 4), -ENAMETOOLONG);
}

#define STRANGER 64123u

/* As a user without a session folder: what somebody has put at /tmp/vgpu-UID before us is
 * refused. */
static int use_planted(void *arg)
{
    const char *how = arg;
    char path[PATH_MAX], own[64];
    int rc;

    snprintf(own, sizeof(own), "/tmp/vgpu-%u", STRANGER);
    unsetenv("XDG_RUNTIME_DIR");
    rmdir(own);
    unlink(own);
    if (strcmp(how, "link") == 0)
        CHECK(symlink("/tmp", own) == 0);
    else if (strcmp(how, "other") == 0)
        CHECK(mkdir(own, 0777) == 0);
    else if (strcmp(how, "open") == 0)
        CHECK(mkdir(own, 0700) == 0 && chmod(own, 0777) == 0 &&
              chown(own, STRANGER, STRANGER) == 0);
    CHECK(setresgid(STRANGER, STRANGER, STRANGER) == 0 &&
          setresuid(STRANGER, STRANGER, STRANGER) == 0);
    rc = runtime_dir_make(path, sizeof(path));
    CHECK(rc == (strcmp(how, "absent") == 0 ? 0 : -EPERM));
    CHECK(rc < 0 || strcmp(path, own) == 0);
    return 0;
}

ROOT_TEST(runtime_folder_planted)
{
    static const char *const ways[] = {"link", "other", "open", "absent"};
    char own[64];

    snprintf(own, sizeof(own), "/tmp/vgpu-%u", STRANGER);
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
        assert_int_equal(finish(spawn(use_planted, (void *)ways[i])), 0);
    rmdir(own);
}

static int in_child_calls;

/*
 * Under RLIMIT_FSIZE every way to write says -EFBIG; no signal arrives, not even later, and the
 * program's mask and what it has pending are as before. stderr is a file, too.
 */
static int writes_under_a_limit(void *arg)
{
    const struct rlimit limit = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY};
    static const char much[4096];
    bool pending = arg;
    sigset_t set, before, after;
    int fd = open(scratch_path("limited"), O_RDWR | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    if (pending) {
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(SIGXFSZ);
    }
    sigprocmask(SIG_BLOCK, NULL, &before);
    CHECK(file_make_real(fd, 0, 101) == -EFBIG);
    CHECK(file_make_real(fd, 0, 90) == 0);
    CHECK(file_set_size(fd, 4096) == -EFBIG);
    CHECK(file_write_atomic(scratch_path("limited2"), much, sizeof(much), 0600) == -EFBIG);
    lseek(fd, 100, SEEK_SET);
    log_error("no room for this");
    sigprocmask(SIG_BLOCK, NULL, &after);
    CHECK(sigismember(&before, SIGXFSZ) == sigismember(&after, SIGXFSZ));
    sigpending(&after);
    CHECK(sigismember(&after, SIGXFSZ) == pending);
    return 0;
}

TEST(file_size_limit)
{
    assert_int_equal(finish(spawn(writes_under_a_limit, NULL)), 0);
    assert_int_equal(finish(spawn(writes_under_a_limit, &(bool){true})), 0);
}

static void count_child(void *arg)
{
    (void)arg;
    in_child_calls++;
}

static int check_twice(void *arg)
{
    (void)arg;
    fork_check();
    fork_check();
    return in_child_calls;
}

/* A child of a bare clone, which runs no pthread_atfork handler: the wiped page must tell. */
static int check_raw(void)
{
    long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

    if (pid == 0) {
        fork_check();
        _exit(in_child_calls);
    }
    return finish((pid_t)pid);
}

TEST(fork_detection)
{
    static struct fork_watch watch = {.child = count_child};

    fork_watch_add(&watch);
    fork_check();
    assert_int_equal(in_child_calls, 0);
    assert_int_equal(finish(spawn(check_twice, NULL)), 1);
    assert_int_equal(check_raw(), 1);
    assert_int_equal(in_child_calls, 0);
    fork_watch_remove(&watch);
    assert_int_equal(finish(spawn(check_twice, NULL)), 0);
}

/* Lines of /proc/PID/stat, as Linux 6.1 wrote them: flags is the ninth field, the threads are the
 * twentieth. */
TEST(processes_that_end)
{
    assert_false(proc_stat_is_exiting(
        "7 (sleep) S 1 7 7 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 29 5496832 453"));
    assert_true(
        proc_stat_is_exiting("7 (sleep) R 1 7 7 0 -1 4194308 90 0 0 0 0 0 0 0 20 0 1 0 29 0 0"));
    assert_true(proc_stat_is_exiting(
        "7 (a) R) S 1) R 1 7 7 0 -1 4194308 90 0 0 0 0 0 0 0 20 0 3 0 29 0 0"));
    assert_true(
        proc_stat_is_exiting("7 (sleep) Z 1 7 7 0 -1 4194316 90 0 0 0 0 0 0 0 20 0 2 0 29 0 0"));
    assert_false(
        proc_stat_is_exiting("7 (sleep) Z 1 7 7 0 -1 4194316 90 0 0 0 0 0 0 0 20 0 1 0 29 0 0"));
    assert_false(proc_stat_is_exiting("7 (sleep) R 1 7 7"));
    assert_false(proc_stat_is_exiting(""));
    assert_false(proc_is_exiting(getpid()));
    assert_false(proc_thread_ended(getpid()));
    assert_true(proc_thread_ended(0x7fffffff));
    assert_false(proc_is_exiting(0x7fffffff));
}
