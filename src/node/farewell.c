// SPDX-License-Identifier: MIT
// The end of a session's transport. The link is over, its waiters were told, and the program knows.
// But the peer may have received only half a frame, and must hear why the link ended:
//
//     write what is left of the frame, and the link's last word -> send no more -> read to the end
//
// What is read here is thrown away. It must be read: if a descriptor is closed with unread data,
// the system drops what it has not sent yet. A peer that takes nothing, or never ends its own side,
// gets MARE__NODE_FAREWELL for all of this.
#include "base/alloc.h"
#include "loop/stream.h"
#include "node/inner.h"
#include "sched/runtime.h"

// Copies what the link still has to say into one piece, so that the link can be destroyed.
static bool gather(struct mare__session *session)
{
    enum { PIECES = 64 };
    struct iovec pieces[PIECES];
    int count;
    while ((count = mare__link_output(session->link, pieces, PIECES)) > 0) {
        size_t size = 0;
        for (int i = 0; i < count; i++)
            size += pieces[i].iov_len;
        uint8_t *grown = mare__realloc(session->words, session->words_size + size);
        if (!grown)
            return false;
        session->words = grown;
        for (int i = 0; i < count; i++) {
            memcpy(grown + session->words_size, pieces[i].iov_base, pieces[i].iov_len);
            session->words_size += pieces[i].iov_len;
        }
        mare__link_sent(session->link, size);
    }
    return true;
}

void mare__farewell_begin(struct mare__session *session)
{
    // A peer whose name is not known gets only what could be written at once.
    bool known = mare__link_peer(session->link)->name.size > 0;
    session->parts = session->transport && known && gather(session);
    session->farewell = mare__now(session->task.runtime) + MARE__NODE_FAREWELL;
    if (session->transport && !session->parts)
        mare__transport_close(session->transport, false);
}

// Writes. False: writing has failed.
static bool say(struct mare__session *session)
{
    struct mare__transport *transport = session->transport;
    ssize_t size = 0;
    while (session->words_sent < session->words_size && size >= 0) {
        struct iovec piece = {session->words + session->words_sent,
                              session->words_size - session->words_sent};
        size = mare__transport_write(transport, &piece, 1);
        session->words_sent += size > 0 ? (size_t)size : 0;
    }
    if (size >= 0)
        size = mare__transport_shutdown(transport);
    session->writes_wait = size == -EAGAIN;
    session->said = size >= 0;
    return size >= 0 || size == -EAGAIN;
}

// Reads, and throws it away. False: the peer has ended its side, or reading has failed.
static bool hear(struct mare__session *session)
{
    uint8_t buffer[65536];
    ssize_t size = 1;
    for (int i = 0; i < MARE__NODE_READS && size > 0; i++)
        size = mare__transport_read(session->transport, buffer, sizeof buffer);
    session->reads_wait = size == -EAGAIN;
    return size > 0 || size == -EAGAIN;
}

bool mare__farewell_goes_on(struct mare__session *session, bool end)
{
    if (!session->parts)
        return false;
    bool late = end || mare__now(session->task.runtime) >= session->farewell;
    bool works = (session->said || say(session)) && !late;
    if (works && !session->heard && !hear(session))
        session->heard = true; // go on writing: the peer may be waiting for our end
    session->parts = works && !(session->said && session->heard);
    if (!session->parts)
        mare__transport_close(session->transport, !session->said);
    return session->parts;
}
