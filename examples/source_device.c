// SPDX-License-Identifier: MIT
// A device file as a source of events, written in C and handled in Lua. The device is a pseudo
// terminal, which behaves as a serial port does: a sensor at its other end sends a line now and
// then. Maré's observer watches the descriptor beside every socket of the program; when there is
// something to read, `ready` makes an event of each whole line.
#include <errno.h>
#include <fcntl.h>
#include <mare/events.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

struct port {
    int fd;
    char line[256];
    size_t length;
};

// The next whole line becomes an event. MARE_EMPTY: not yet; it never blocks.
static mare_err port_ready(void *self, mare_message *event)
{
    struct port *port = self;
    char *end;
    while (!(end = memchr(port->line, '\n', port->length))) {
        if (port->length == sizeof port->line)
            return MARE_TOOBIG; // ends the source, and Lua learns why
        ssize_t got = read(port->fd, port->line + port->length, sizeof port->line - port->length);
        if (got < 0 && errno == EAGAIN)
            return MARE_EMPTY;
        if (got <= 0)
            return MARE_CLOSED; // the other end has hung up
        port->length += (size_t)got;
    }
    size_t size = (size_t)(end - port->line);
    mare_value line = {.type = MARE_STRING, .as.string = {port->line, size}};
    mare_err err = mare_message_add(event, &line);
    port->length -= size + 1;
    memmove(port->line, end + 1, port->length);
    return err;
}

static void port_destroy(void *self)
{
    struct port *port = self;
    close(port->fd);
    free(port);
}

static const mare_source_kind port_kind = {
    .name = "port", .ready = port_ready, .destroy = port_destroy};

static mare_source *open_port(mare_runtime *runtime, const char *path)
{
    struct port *port = calloc(1, sizeof *port);
    struct termios raw;
    mare_source *source;
    if (!port || (port->fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) < 0)
        exit(1);
    tcgetattr(port->fd, &raw); // a real port gets its speed here too
    cfmakeraw(&raw);
    tcsetattr(port->fd, TCSANOW, &raw);
    if (mare_source_create(runtime, &port_kind, port, port->fd, 0, &source) != MARE_OK)
        exit(1);
    return source;
}

// The sensor: a thread that knows nothing of Maré.
static void *sensor(void *argument)
{
    static const char *const lines[] = {"21.5\n22.", "0\n", "22.5\n"};
    int fd = *(int *)argument;
    for (int i = 0; i < 3; i++) {
        if (write(fd, lines[i], strlen(lines[i])) < 0)
            exit(1);
        usleep(10000);
    }
    return NULL;
}

static const char program[] = "local port = ...\n"
                              "local scheduler = require 'mare.scheduler'\n"
                              "local sum, count = 0, 0\n"
                              "scheduler.register_source(port, function(line)\n"
                              "    print(line .. ' degrees')\n"
                              "    sum, count = sum + tonumber(line), count + 1\n"
                              "    if count == 3 then scheduler.stop() end\n"
                              "end)\n"
                              "scheduler.loop()\n"
                              "print('on average ' .. sum / count)\n";

int main(void)
{
    mare_runtime *runtime;
    mare_message *arguments;
    mare_process *process;
    pthread_t thread;
    int there = posix_openpt(O_RDWR | O_NOCTTY);
    if (there < 0 || grantpt(there) || unlockpt(there) || mare_start(NULL, &runtime) != MARE_OK)
        return 1;
    mare_source *port = open_port(runtime, ptsname(there));
    if (mare_message_create(&arguments) || mare_message_add_source(arguments, port) ||
        mare_spawn(runtime, program, strlen(program), "=program", arguments, &process, NULL))
        return 1;
    mare_message_destroy(arguments);
    mare_source_unref(port); // the process has it now
    pthread_create(&thread, NULL, sensor, &there);
    mare_err err = mare_process_join_until(process, MARE_FOREVER, NULL);
    pthread_join(thread, NULL);
    mare_process_unref(process);
    mare_stop(runtime); // the source ends with the last reference to it, at the latest here
    close(there);
    return err;
}
