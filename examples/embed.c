// SPDX-License-Identifier: MIT
// A C program with Lua processes in it. The main thread starts a runtime and a process that counts
// words; another thread of the program, which knows nothing of Lua, sends it lines and waits for
// the answers, never longer than it wants to.
#include <mare.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The process: answers each line with the number of its words, and returns how many lines there
// were.
static const char counter[] = "local lines, answers = ...\n"
                              "local count = 0\n"
                              "for line in lines:messages() do\n"
                              "    local words = 0\n"
                              "    for _ in line:gmatch('%a+') do words = words + 1 end\n"
                              "    count = count + 1\n"
                              "    answers:send(words)\n"
                              "end\n"
                              "return count\n";

struct office {
    mare_runtime *runtime;
    mare_channel *lines, *answers;
};

static void check(mare_err err, const char *what)
{
    if (err != MARE_OK) {
        fprintf(stderr, "%s: %s\n", what, mare_strerror(err));
        exit(1);
    }
}

static void *clerk(void *argument)
{
    static const char *const texts[] = {"the sea comes in", "and out", "twice a day"};
    struct office *office = argument;
    mare_message *message, *answer;
    mare_value value;
    check(mare_message_create(&message), "message");
    for (int i = 0; i < 3; i++) {
        check(mare_message_add_string(message, texts[i]), "add");
        // Once it has left, the message is empty and can be used for the next line.
        check(mare_chan_send_until(office->lines, message, mare_deadline_ms(office->runtime, 5000)),
              "send");
        check(mare_chan_receive_until(office->answers, &answer,
                                      mare_deadline_ms(office->runtime, 5000)),
              "receive");
        check(mare_message_get(answer, 0, &value), "get");
        printf("%-16s  %lld words\n", texts[i], (long long)value.as.integer);
        mare_message_destroy(answer);
    }
    mare_message_destroy(message);
    // Nobody answers what was not asked: the deadline passes.
    mare_err err =
        mare_chan_receive_until(office->answers, &answer, mare_deadline_ms(office->runtime, 10));
    printf("no question: %s\n", mare_strerror(err));
    mare_chan_close(office->lines); // which ends the loop in the process
    return NULL;
}

int main(void)
{
    struct office office;
    mare_message *arguments, *result;
    mare_process *process;
    mare_value value = {.type = MARE_CHANNEL};
    char *error;
    check(mare_start(NULL, &office.runtime), "start");
    check(mare_chan_create(office.runtime, 0, NULL, &office.lines), "channel");
    check(mare_chan_create(office.runtime, 0, NULL, &office.answers), "channel");

    check(mare_message_create(&arguments), "arguments");
    value.as.channel = office.lines;
    check(mare_message_add(arguments, &value), "argument");
    value.as.channel = office.answers;
    check(mare_message_add(arguments, &value), "argument");
    if (mare_spawn(office.runtime, counter, strlen(counter), "=counter", arguments, &process,
                   &error) != MARE_OK) {
        fprintf(stderr, "spawn: %s\n", error ? error : "no memory");
        return 1;
    }
    mare_message_destroy(arguments);

    pthread_t thread;
    if (pthread_create(&thread, NULL, clerk, &office) != 0)
        return 1;
    check(mare_process_join_until(process, mare_deadline_ms(office.runtime, 30000), &result),
          "join");
    pthread_join(thread, NULL);
    check(mare_message_get(result, 0, &value), "result");
    printf("the process saw %lld lines\n", (long long)value.as.integer);

    mare_message_destroy(result);
    mare_process_unref(process);
    mare_chan_unref(office.lines);
    mare_chan_unref(office.answers);
    mare_stop(office.runtime);
    return 0;
}
