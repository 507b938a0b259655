/*
 * Memory that a file holds, as cuMemExportToShareableHandle(), NCCL and CUDA's IPC make it. It
 * stays charged for as long as a process has the file or an object made from it. The guard charges
 * it to a process that lives.
 *
 *   exports_test CASE [ARG]      attack.sh runs it, so the audit looks at it too
 */
#include "exports_test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int new_file(const struct rmclient *client)
{
    int fd = rmclient_open_file(client->dir, "nvidiactl");

    CHECK(fd >= 0);
    return fd;
}

void check_charged(struct rmclient *client, uint64_t bytes)
{
    attack_await_used(client, bytes);
    attack_check_room(client);
    CHECK_EQUAL(book(client, 0).gpu_used, bytes);
}

void say(int socket)
{
    CHECK_EQUAL(write(socket, "x", 1), 1);
}

void hear(int socket)
{
    char byte;

    CHECK_EQUAL(read(socket, &byte, 1), 1);
}

static int fork_with(int sockets[2])
{
    int pid;

    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    pid = fork();
    CHECK(pid >= 0);
    close(sockets[pid ? 1 : 0]);
    return pid;
}

/* One object, in the process that has made it. */
static void one(void)
{
    uint32_t memory, chosen = 0x5c0000aa, made = 0, system = 0;
    struct rm_memory_params params = {.attr = 1u << 25, .size = PAGE, .numa_node = -1};
    struct rmclient client;
    int fd, other;

    attack_open(&client);
    fd = new_file(&client);
    other = new_file(&client);
    memory = attack_must_alloc(&client, BLOCK);
    CHECK_EQUAL(rmclient_import(&client, fd, &made),
                RM_ERR_INVALID_PARAMETER); /* it holds nothing */
    CHECK_EQUAL(rmclient_export(&client, fd, memory), 0);
    CHECK_EQUAL(rmclient_export(&client, fd, memory), RM_ERR_STATE_IN_USE);
    CHECK_EQUAL(rmclient_export(&client, other, 0xdead), RM_ERR_OBJECT_NOT_FOUND);
    CHECK_EQUAL(rmclient_export(&client, 999, memory), RM_ERR_INVALID_PARAMETER);
    CHECK_EQUAL(rmclient_export(&client, STDERR_FILENO, memory), RM_ERR_INVALID_PARAMETER);
    check_charged(&client, BLOCK);
    attack_must_free(&client, memory);
    check_charged(&client, BLOCK);
    CHECK_EQUAL(rmclient_import(&client, fd, &chosen), 0);
    CHECK_EQUAL(chosen, 0x5c0000aa);
    CHECK_EQUAL(rmclient_import(&client, fd, &made), 0);
    CHECK(made != 0 && made != chosen);
    check_charged(&client, BLOCK);
    close(fd);
    nap_ms(AUDIT_MS);
    check_charged(&client, BLOCK);
    attack_must_free(&client, chosen);
    check_charged(&client, BLOCK);
    attack_must_free(&client, made);
    check_charged(&client, 0);
    /* What is no memory of the card is none when it comes back. */
    CHECK_EQUAL(rmclient_alloc(&client, client.device, &system, RM_CLASS_MEMORY_SYSTEM, &params,
                               sizeof(params)),
                0);
    CHECK_EQUAL(rmclient_export(&client, other, system), 0);
    made = 0;
    CHECK_EQUAL(rmclient_import(&client, other, &made), 0);
    check_charged(&client, 0);
    close(other);
    rmclient_close(&client);
}

/* The file is the client's own, and its client is freed: what it holds stays. */
static void own_file(void)
{
    struct rmclient client, again;
    uint32_t memory, made = 0;

    attack_open(&client);
    memory = attack_must_alloc(&client, BLOCK);
    CHECK_EQUAL(rmclient_export(&client, client.ctl, memory), 0);
    CHECK_EQUAL(rmclient_free_root(&client), 0);
    attack_open(&again);
    check_charged(&again, BLOCK);
    CHECK_EQUAL(rmclient_import(&again, client.ctl, &made), 0);
    close(client.ctl);
    check_charged(&again, BLOCK);
    attack_must_free(&again, made);
    check_charged(&again, 0);
    rmclient_close(&again);
}

/* Places of a file: put in, replaced, taken out. */
static void places(void)
{
    uint32_t memory[4], back[4] = {0}, bad[2], nothing[2] = {0};
    struct rmclient client;
    int fd;

    attack_open(&client);
    fd = new_file(&client);
    for (unsigned i = 0; i < 4; i++)
        memory[i] = attack_must_alloc(&client, (i + 1) * MIB);
    CHECK_EQUAL(rmclient_export_many(&client, fd, 0, 0, memory, 4), RM_ERR_INVALID_PARAMETER);
    CHECK_EQUAL(rmclient_export_many(&client, fd, 4, 1, memory, 4), RM_ERR_OUT_OF_RANGE);
    bad[0] = memory[3];
    bad[1] = 0xdead;
    CHECK_EQUAL(rmclient_export_many(&client, fd, 4, 0, bad, 2), RM_ERR_OBJECT_NOT_FOUND);
    CHECK_EQUAL(rmclient_export_many(&client, fd, 4, 1, memory, 3), 0);
    for (unsigned i = 0; i < 4; i++)
        attack_must_free(&client, memory[i]);
    check_charged(&client, 6 * MIB); /* in places 1, 2, 3: 1, 2 and 3 MiB */
    memory[0] = attack_must_alloc(&client, 10 * MIB);
    bad[0] = memory[0];
    CHECK_EQUAL(rmclient_export_many(&client, fd, 4, 2, bad, 2), RM_ERR_OBJECT_NOT_FOUND);
    check_charged(&client, 16 * MIB);
    CHECK_EQUAL(rmclient_export_many(&client, fd, 4, 2, memory, 1), 0); /* instead of 2 MiB */
    attack_must_free(&client, memory[0]);
    check_charged(&client, 14 * MIB);
    CHECK_EQUAL(rmclient_import_many(&client, fd, 0, back, 4), 0);
    CHECK(back[0] == 0 && back[1] && back[2] && back[3]);
    check_charged(&client, 14 * MIB);
    CHECK_EQUAL(rmclient_export_many(&client, fd, 4, 2, nothing, 2), 0);
    check_charged(&client, 14 * MIB);
    attack_must_free(&client, back[2]);
    check_charged(&client, 4 * MIB);
    attack_must_free(&client, back[3]);
    check_charged(&client, MIB);
    attack_must_free(&client, back[1]);
    check_charged(&client, MIB); /* place 1 */
    close(fd);
    check_charged(&client, 0);
    rmclient_close(&client);
}

/* As many as there can be, and the call by way of XFER. */
static void most(void)
{
    static uint32_t memory[RM_EXPORT_MAX], back[RM_IMPORT_MAX];
    static struct rm_export_objects params = {.room = RM_EXPORT_MAX, .count = RM_EXPORT_MAX};
    struct rm_control control = {.cmd = RM_CTRL_EXPORT_OBJECTS,
                                 .params = (uintptr_t)&params,
                                 .params_bytes = sizeof(params)};
    struct rmclient client;

    attack_open(&client);
    params.fd = new_file(&client);
    for (unsigned i = 0; i < RM_EXPORT_MAX; i++)
        params.object[i] = memory[i] = attack_must_alloc(&client, PAGE);
    control.client = control.object = client.client;
    CHECK_EQUAL(rmclient_call_xfer(client.ctl, RM_ESC_CONTROL, sizeof(control), &control), 0);
    CHECK_EQUAL(control.status, 0);
    for (unsigned i = 0; i < RM_EXPORT_MAX; i++)
        attack_must_free(&client, memory[i]);
    check_charged(&client, RM_EXPORT_MAX * PAGE);
    CHECK_EQUAL(rmclient_import_many(&client, params.fd, RM_EXPORT_MAX - RM_IMPORT_MAX, back,
                                     RM_IMPORT_MAX),
                0);
    close(params.fd);
    check_charged(&client, RM_IMPORT_MAX * PAGE);
    rmclient_close(&client);
    attack_open(&client);
    check_charged(&client, 0);
    rmclient_close(&client);
}

/* The exporter's life: what it has made goes through the socket, and it is gone. */
static void export_and_go(int socket, bool frees)
{
    struct rmclient client;
    uint32_t memory;
    int fd;

    attack_open(&client);
    fd = new_file(&client);
    memory = attack_must_alloc(&client, BLOCK);
    CHECK_EQUAL(rmclient_export(&client, fd, memory), 0);
    if (frees)
        attack_must_free(&client, memory);
    attack_send_fd(socket, fd);
    close(fd);
    if (frees) {
        hear(socket);
        rmclient_close(&client);
    }
    exit(0);
}

/* Sent to another process, which imports it and outlives the exporter. */
static void sent(bool frees)
{
    struct rmclient client;
    uint32_t made = 0, again = 0;
    int sockets[2], fd, pid;

    pid = fork_with(sockets);
    if (pid == 0)
        export_and_go(sockets[1], frees);
    attack_open(&client);
    if (!frees)
        CHECK_EQUAL(finish(pid), 0);
    nap_ms(AUDIT_MS); /* nobody has it: it is in the socket */
    check_charged(&client, BLOCK);
    fd = attack_receive_fd(sockets[0]);
    check_charged(&client, BLOCK);
    CHECK_EQUAL(rmclient_import(&client, fd, &made), 0);
    CHECK_EQUAL(rmclient_import(&client, fd, &again), 0);
    check_charged(&client, BLOCK);
    if (frees) {
        say(sockets[0]);
        CHECK_EQUAL(finish(pid), 0);
    }
    nap_ms(AUDIT_MS);
    check_charged(&client, BLOCK);
    close(fd);
    nap_ms(AUDIT_MS);
    check_charged(&client, BLOCK);
    CHECK_EQUAL(book(&client, 0).pid_bytes, BLOCK); /* it is the importer's, for NVML as well */
    attack_must_free(&client, again);
    check_charged(&client, BLOCK);
    attack_must_free(&client, made);
    check_charged(&client, 0);
    rmclient_close(&client);
    close(sockets[0]);
}

/* The memory is mapped only, the space under way to another process. */
static void map_send_and_go(int socket)
{
    struct rmclient client;
    uint32_t memory;

    attack_open(&client);
    memory = attack_must_alloc(&client, BLOCK);
    CHECK_EQUAL(rmclient_uvm_range(&client, BLOCK, BLOCK), 0);
    CHECK_EQUAL(rmclient_uvm_map(&client, BLOCK, BLOCK, 0, memory), 0);
    attack_must_free(&client, memory);
    attack_send_fd(socket, client.uvm);
    exit(0);
}

/* A UVM space that alone has the memory, whose sender is gone before it is received. */
static void uvm_sent(void)
{
    struct rmclient client, receiver;
    int sockets[2], inner[2], pid, sender;

    attack_open(&client);
    pid = fork_with(sockets);
    if (pid == 0) {
        sender = fork_with(inner);
        if (sender == 0)
            map_send_and_go(inner[1]);
        attack_open(&receiver);
        CHECK_EQUAL(finish(sender), 0);
        say(sockets[1]);
        hear(sockets[1]);
        attack_receive_fd(inner[0]);
        say(sockets[1]);
        hear(sockets[1]);
        exit(0);
    }
    for (unsigned i = 0; i < 2; i++) {
        hear(sockets[0]);
        nap_ms(AUDIT_MS);
        check_charged(&client, BLOCK);
        say(sockets[0]);
    }
    CHECK_EQUAL(finish(pid), 0);
    check_charged(&client, 0);
    rmclient_close(&client);
    close(sockets[0]);
}

/* Several importers, of which the driver makes another one the owner than the guard. */
static void importers(void)
{
    struct rmclient client;
    uint32_t memory, made = 0;
    int sockets[3][2], pid[3], fd;

    attack_open(&client);
    fd = new_file(&client);
    for (unsigned i = 0; i < 3; i++) {
        pid[i] = fork_with(sockets[i]);
        if (pid[i])
            continue;
        attack_open(&client);
        fd = attack_receive_fd(sockets[i][1]);
        CHECK_EQUAL(rmclient_import(&client, fd, &made), 0);
        close(fd);
        say(sockets[i][1]);
        hear(sockets[i][1]);
        exit(0);
    }
    memory = attack_must_alloc(&client, BLOCK);
    CHECK_EQUAL(rmclient_export(&client, fd, memory), 0);
    for (unsigned i = 0; i < 3; i++) {
        attack_send_fd(sockets[i][0], fd);
        hear(sockets[i][0]);
    }
    close(fd);
    attack_must_free(&client, memory);
    nap_ms(AUDIT_MS);
    check_charged(&client, BLOCK);
    for (unsigned i = 0; i < 3; i++) {
        say(sockets[i][0]);
        CHECK_EQUAL(finish(pid[i]), 0);
        nap_ms(AUDIT_MS);
        check_charged(&client, i < 2 ? BLOCK : 0);
    }
    rmclient_close(&client);
}

/* Inherited by a child that never makes a call, whose parent closes it, and dies. */
static void forked(void)
{
    struct rmclient client, mine;
    int sockets[2], inner[2], pid, fd;
    uint32_t memory;

    attack_open(&client);
    pid = fork_with(sockets);
    if (pid == 0) {
        attack_open(&mine);
        fd = new_file(&mine);
        memory = attack_must_alloc(&mine, BLOCK);
        CHECK_EQUAL(rmclient_export(&mine, fd, memory), 0);
        rmclient_close(&mine);
        if (fork_with(inner) == 0) {
            say(sockets[1]);
            hear(sockets[1]);
            exit(0);
        }
        close(fd);
        nap_ms(AUDIT_MS);
        exit(0);
    }
    hear(sockets[0]);
    check_charged(&client, BLOCK);
    CHECK_EQUAL(finish(pid), 0);
    nap_ms(AUDIT_MS);
    check_charged(&client, BLOCK);
    say(sockets[0]);
    check_charged(&client, 0);
    rmclient_close(&client);
}

/* Closed by exec, or not. */
static void replaced(char *program)
{
    char *const argv[] = {program, (char *)(uintptr_t) "wait", NULL};
    struct rmclient client, mine;
    int sockets[2], pid, fd;
    uint32_t memory;

    attack_open(&client);
    for (unsigned stays = 0; stays < 2; stays++) {
        pid = fork_with(sockets);
        if (pid == 0) {
            CHECK_EQUAL(dup2(sockets[1], STDIN_FILENO), STDIN_FILENO);
            attack_open(&mine);
            fd = new_file(&mine);
            memory = attack_must_alloc(&mine, BLOCK);
            CHECK_EQUAL(rmclient_export(&mine, fd, memory), 0);
            attack_must_free(&mine, memory);
            CHECK_EQUAL(fcntl(fd, F_SETFD, stays ? 0 : FD_CLOEXEC), 0);
            execv(program, argv);
            exit(1);
        }
        hear(sockets[0]);
        nap_ms(AUDIT_MS);
        check_charged(&client, stays ? BLOCK : 0);
        say(sockets[0]);
        CHECK_EQUAL(finish(pid), 0);
        check_charged(&client, 0);
        close(sockets[0]);
    }
    rmclient_close(&client);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";

    if (strcmp(what, "simple") == 0) {
        one();
        own_file();
        places();
        most();
    } else if (strcmp(what, "sent") == 0) {
        sent(true);
        sent(false);
        uvm_sent();
    } else if (strcmp(what, "importers") == 0) {
        importers();
    } else if (strcmp(what, "forked") == 0) {
        forked();
    } else if (strcmp(what, "replaced") == 0) {
        replaced(argv[0]);
    } else if (strcmp(what, "wait") == 0) {
        say(STDIN_FILENO);
        hear(STDIN_FILENO);
    } else if (strcmp(what, "outside") == 0) {
        outside(arg);
    } else if (strcmp(what, "foreign") == 0) {
        foreign(arg, false);
    } else if (strcmp(what, "foreign_strict") == 0) {
        foreign(arg, true);
    } else if (strcmp(what, "cheat") == 0) {
        cheat();
    } else if (strcmp(what, "no_dmabuf") == 0) {
        no_dmabuf((unsigned)attack_number(argc, argv, 2, 2608));
    } else if (strcmp(what, "dmabuf") == 0) {
        dmabuf();
    } else {
        return 2;
    }
    return 0;
}
