// SPDX-License-Identifier: MIT
// A C library that blocks, as a source of events: it gets a thread of its own, in which `wait` may
// take as long as it likes. Here the library is stdio, which waits in getline for a line that
// somebody sends; any other that has only a function to wait in is wrapped in the same way. The
// events are handled in C, by a scheduler that the main thread drives.
#include <mare/events.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct feed {
    FILE *in;
    char *line;
    size_t room;
};

// Blocks. It runs in its own thread, and is called for the next event when the line of the source
// has room for it: who handles events slowly is not overrun.
static mare_err feed_wait(void *self, mare_message *event)
{
    struct feed *feed = self;
    if (getline(&feed->line, &feed->room, feed->in) < 0)
        return MARE_CLOSED;
    feed->line[strcspn(feed->line, "\n")] = '\0';
    return mare_message_add_string(event, feed->line);
}

// Makes a wait return that is under way, or about to begin: the next read finds the end.
static void feed_stop(void *self)
{
    shutdown(fileno(((struct feed *)self)->in), SHUT_RDWR);
}

static void feed_destroy(void *self)
{
    struct feed *feed = self;
    fclose(feed->in);
    free(feed->line);
    free(feed);
    puts("the library was closed");
}

static const mare_source_kind feed_kind = {
    .name = "feed", .wait = feed_wait, .stop = feed_stop, .destroy = feed_destroy};

struct office {
    mare_scheduler *scheduler;
    int letters;
};

// Runs on the thread that calls mare_scheduler_loop, with no lock held.
static void on_letter(void *user, mare_message *event)
{
    struct office *office = user;
    mare_value line;
    mare_message_get(event, 0, &line);
    printf("letter %d: %.*s\n", ++office->letters, (int)line.as.string.length,
           line.as.string.bytes);
    if (office->letters == 3)
        mare_scheduler_stop(office->scheduler);
}

static void check(bool fine, const char *what)
{
    if (!fine) {
        perror(what);
        exit(1);
    }
}

int main(void)
{
    static const char text[] = "the sea comes in\nand out\ntwice a day\nand nobody reads this\n";
    mare_runtime *runtime = NULL;
    mare_source *source = NULL;
    struct office office = {0};
    struct feed *feed = calloc(1, sizeof *feed);
    int ends[2];
    check(feed && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 &&
              (feed->in = fdopen(ends[0], "r")),
          "the library");
    check(mare_start(NULL, &runtime) == MARE_OK &&
              mare_scheduler_create(runtime, &office.scheduler) == MARE_OK &&
              mare_source_create(runtime, &feed_kind, feed, -1, 0, &source) == MARE_OK,
          "the runtime");
    mare_scheduler_register_source(office.scheduler, source, on_letter, &office, NULL);
    check(write(ends[1], text, strlen(text)) > 0, "write");
    mare_scheduler_loop(office.scheduler);
    printf("%d letters are enough\n", office.letters);
    mare_scheduler_destroy(office.scheduler);
    mare_source_unref(source); // nobody has it any more: it is stopped
    mare_stop(runtime);        // waits for its thread
    close(ends[1]);
    return 0;
}
