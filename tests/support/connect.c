/* Writes a line to the file that CONNECT_LOG names for each connection a process opens; for LD_PRELOAD. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void note(const char *how, const struct sockaddr *to) {
    const char *path = getenv("CONNECT_LOG");
    if (!path || !to || (to->sa_family != AF_INET && to->sa_family != AF_INET6)) return;
    char name[INET6_ADDRSTRLEN] = "", line[128];
    const struct sockaddr_in *four = (const void *)to;
    const struct sockaddr_in6 *six = (const void *)to;
    if (to->sa_family == AF_INET)
        inet_ntop(AF_INET, &four->sin_addr, name, sizeof name);
    else
        inet_ntop(AF_INET6, &six->sin6_addr, name, sizeof name);
    int n = snprintf(line, sizeof line, "%s %s %d\n", how, name, ntohs(to->sa_family == AF_INET ? four->sin_port : six->sin6_port));
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file >= 0 && write(file, line, (size_t)n) == n) close(file);
}

int connect(int socket, const struct sockaddr *to, socklen_t length) {
    static int (*real)(int, const struct sockaddr *, socklen_t);
    if (!real) real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    note("connect", to);
    return real(socket, to, length);
}

ssize_t sendto(int socket, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    static ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    if (!real)
        real = (ssize_t(*)(int, const void *, size_t, int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "sendto");
    note("sendto", to);
    return real(socket, data, size, flags, to, length);
}
