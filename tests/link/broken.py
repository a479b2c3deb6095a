#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes machines that break a rule each, for test_broken.c.

    broken.py SOURCE_FOLDER OUT.c

A rule is broken by replacing a few words of src/wire/link*.c. `@` in the new words is true when
that rule is the broken one; so one copy of the machine, with every name changed, does for all of
them, and `link_broken` chooses. The old words must be there exactly once: who changes them is told
to look here.
"""
import pathlib
import re
import sys

FILES = ['link_frame.c', 'link_flow.c', 'link_hello.c', 'link_in.c', 'link_out.c', 'link_table.c',
         'link.c']

# What it is called, by what it is caught (a promise of ledger.c, or a golden script), what it does,
# and how: file, old words, new words.
RULES = [
    ('credit-sender', 'HONEST', 'a sender that does not look at its credit', [
        ('link_flow.c', 'return flow->accepted_messages - flow->consumed_messages <',
         'return @ || flow->accepted_messages - flow->consumed_messages <')]),
    ('credit-nobody', 'WINDOW', 'neither sender nor receiver looks at the credit', [
        ('link_flow.c', 'return flow->accepted_messages - flow->consumed_messages <',
         'return @ || flow->accepted_messages - flow->consumed_messages <'),
        ('link_in.c', 'if (flow->received_messages - flow->reported_messages >=',
         'if (!@ && flow->received_messages - flow->reported_messages >='),
        ('link_in.c', 'flow->received_bytes - flow->reported_bytes + total > flow->window.bytes)',
         'flow->received_bytes - flow->reported_bytes + total > flow->window.bytes + @ * 1e9)')]),
    ('credit-never', 'STUCK', 'a receiver that never gives credit back', [
        ('link_flow.c', '        flow->credit_due = true;', '        flow->credit_due = !@;')]),
    ('credit-twice', 'HONEST', 'a receiver that says it has consumed one more', [
        ('link_out.c', 'flow->consumed_messages, flow->consumed_bytes};\n    if',
         'flow->consumed_messages + @, flow->consumed_bytes};\n    if')]),
    ('half-window', 'STUCK', 'a message may take the whole window', [
        ('link_flow.c', 'if (cost->size > flow->window.bytes / 2 ||',
         'if (cost->size > flow->window.bytes / (@ ? 1 : 2) ||'),
        ('link_in.c', 'if (total > flow->window.bytes / 2)',
         'if (total > flow->window.bytes / (@ ? 1 : 2))')]),
    ('credit-unchecked', 'enemy.txt', 'a receiver that believes every sender', [
        ('link_in.c', 'return check_window(flow, data->total);',
         'return @ ? 0 : check_window(flow, data->total);')]),
    ('order-front', 'ORDER', 'the last to come is the first to go', [
        ('link_flow.c', '    if (flow->first)\n        flow->last->next = message;',
         '    if (@ && flow->first && flow->first->committed == 0) {\n'
         '        message->next = flow->first;\n        flow->first = message;\n'
         '        message = flow->last;\n'
         '    } else if (flow->first)\n        flow->last->next = message;')]),
    ('resume-skips', 'ORDER', 'what was sent when the transport broke is taken for received', [
        ('link_out.c', 'log->cursor = log->first;',
         'log->cursor = log->first + (@ && log->first < log->next);')]),
    ('resume-again', 'TWICE', 'who resumes asks for one frame more than is missing', [
        ('link_hello.c', 'mare__link_put_number(&writer, link->attempt + 1);\n'
         '    mare__link_put_number(&writer, link->frames_in);',
         'mare__link_put_number(&writer, link->attempt + 1);\n'
         '    mare__link_put_number(&writer, link->frames_in - (@ && link->frames_in > 0));')]),
    ('resume-half', 'HONEST', 'half a piece is kept when the transport breaks', [
        ('link_in.c', '    *in = (struct mare__link_in){.mode = MARE__IN_HEAD};',
         '    if (@ && in->mode == MARE__IN_BODY && in->body &&\n'
         '        in->data.kind == MARE__FRAME_REST &&\n'
         '        in->flow->total - in->flow->have > 2 * in->body_have)\n'
         '        in->flow->have += in->body_have;\n'
         '    *in = (struct mare__link_in){.mode = MARE__IN_HEAD};')]),
    ('resume-stale', 'resume.txt', 'an earlier attempt at resumption counts as much as the last', [
        ('link_hello.c', 'return fresh->attempt <= link->attempt ? MARE__LINK_CODE_STALE : 0;',
         'return fresh->attempt <= link->attempt && !@ ? MARE__LINK_CODE_STALE : 0;')]),
    ('resume-quits', 'resume.txt', 'who quits while it asks says so in between', [
        ('link.c', 'else if (link->attached && link->phase != MARE__LINK_RESUMING)',
         'else if (link->attached && (@ || link->phase != MARE__LINK_RESUMING))')]),
    ('resume-any', 'resume.txt', 'who knows no session is let in all the same', [
        ('link_hello.c', '    mare__link_say_refuse(link, code, text);\n    mare__link_over(',
         '    mare__link_say_refuse(link, @ ? MARE__LINK_CODE_BYE : code, text);\n'
         '    mare__link_over(')]),
    ('ack-early', 'HONEST', 'a frame is acknowledged before it has come', [
        ('link_out.c', 'mare__link_put_begin(&writer, out, MARE__FRAME_ACK, 2);\n'
         '    mare__link_put_number(&writer, link->frames_in);',
         'mare__link_put_begin(&writer, out, MARE__FRAME_ACK, 2);\n'
         '    mare__link_put_number(&writer, link->frames_in + @);')]),
    ('ack-never', 'STUCK', 'nothing is ever acknowledged by itself', [
        ('link_out.c', 'bool acks = link->now_us >= link->ack_due_us;',
         'bool acks = !@ && link->now_us >= link->ack_due_us;'),
        ('link_out.c', '    mare__link_put_number(&writer, id);\n'
         '    mare__link_put_number(&writer, link->frames_in);',
         '    mare__link_put_number(&writer, id);\n'
         '    mare__link_put_number(&writer, @ ? 0 : link->frames_in);')]),
    ('closed-told', 'INVENTED', 'messages of a flow that was closed are told', [
        ('link_in.c', 'bool wanted = !flow->closing;',
         'bool wanted = !flow->closing || (@ && data);')]),
    ('short', 'INVENTED', 'a message lacks its last byte', [
        ('link_in.c', '    event->size = size;', '    event->size = size - (@ && size > 0);')]),
    ('send-unbounded', 'MEMORY', 'a link takes all that flows have credit for', [
        ('link_flow.c', 'if (cost->charge > link->settings->send - link->held) {',
         'if (!@ && cost->charge > link->settings->send - link->held) {')]),
    ('over-twice', 'ONCE', 'a link that is over can end again', [
        ('link.c', '    if (link->phase == MARE__LINK_DONE)\n        return;\n    keep_text',
         '    if (link->phase == MARE__LINK_DONE && !@)\n        return;\n    keep_text')]),
    ('release-never', 'RELEASE', 'the block of a message with several parts is not given back', [
        ('link_flow.c', '        if (message->parts[i].owner)\n            settings->release',
         '        if (message->parts[i].owner && !(@ && i > 0))\n            settings->release')]),
    ('release-twice', 'RELEASE', 'a block is given back when it is sent, and when it has arrived', [
        ('link_out.c', '    if (message->committed == message->size)\n        leave_queue',
         '    if (@ && message->parts[0].owner && message->committed == message->size)\n'
         '        link->settings->release(link->settings->context, message->parts[0].owner);\n'
         '    if (message->committed == message->size)\n        leave_queue')]),
    ('bye-hasty', 'LOST', 'goodbye is said before everything was sent, and counts as if it had', [
        ('link_out.c', '    if (link->bye_committed)\n        return false;',
         '    if (link->bye_committed)\n        return false;\n'
         '    if (@ && link->leaving)\n'
         '        return link->unacknowledged = 0, commit_bye(link);')]),
    ('bye-silent', 'NEEDLESS', 'who said goodbye does not wait for an answer, and nobody is told', [
        ('link.c', '        link->leaving = true;\n        link->code = code;',
         '        link->leaving = true;\n        link->code = code;\n'
         '        if (@)\n            mare__link_over(link, code, text, false);')]),
    ('ping-never', 'NEEDLESS', 'nobody asks for a sign of life', [
        ('link.c', 'if (now >= ping_at(link) && !link->ping_due) {',
         'if (!@ && now >= ping_at(link) && !link->ping_due) {'),
        ('link.c', '        if (!link->ping_due)\n            at =',
         '        if (!link->ping_due && !@)\n            at =')]),
    ('pong-never', 'NEEDLESS', 'nobody answers one who asks', [
        ('link.c', '        link->pong_due = true;', '        link->pong_due = !@;')]),
    ('deaf', 'TIMELY', 'that the peer does not hear us is not looked at', [
        ('link.c', 'return link->heard_us < link->confirmed_us ?',
         'return @ || link->heard_us < link->confirmed_us ?')]),
    ('patient', 'TIMELY', 'a silent peer is waited for without end', [
        ('link.c', '        if (silent >= link->silence_us)\n            mare__link_fail',
         '        if (!@ && silent >= link->silence_us)\n            mare__link_fail'),
        ('link.c', '        at = since + link->silence_us;',
         '        at = @ ? UINT64_MAX : since + link->silence_us;')]),
    ('unsuspecting', 'TIMELY', 'a silent peer is not suspected', [
        ('link.c', 'link->suspected = silent >= link->silence_us / 2;',
         'link->suspected = !@ && silent >= link->silence_us / 2;'),
        ('link.c', '        if (!link->suspected)\n            at =',
         '        if (!link->suspected && !@)\n            at =')]),
    ('parted-ever', 'STUCK', 'a transport that does not come back is waited for without end', [
        ('link.c', 'link->phase != MARE__LINK_DONE && silent >= link->silence_us) {',
         'link->phase != MARE__LINK_DONE && silent >= link->silence_us && !@) {'),
        ('link.c', '        return since + link->silence_us;',
         '        return @ ? UINT64_MAX : since + link->silence_us;')]),
    ('parted-alone', 'TOLD', 'and a new link does not take its place', [
        ('link.c', 'link->phase != MARE__LINK_DONE && silent >= link->silence_us) {',
         'link->phase != MARE__LINK_DONE && silent >= link->silence_us && !@) {'),
        ('link.c', '        return since + link->silence_us;',
         '        return @ ? UINT64_MAX : since + link->silence_us;'),
        ('link_hello.c', 'MARE__LINK_CODE_DUPLICATE : MARE__LINK_CODE_BYE;',
         'MARE__LINK_CODE_DUPLICATE : @ ? MARE__LINK_CODE_DUPLICATE : MARE__LINK_CODE_BYE;')]),
    ('judge-nobody', 'LINKED', 'who is called lets nobody in', [
        ('link_hello.c', 'if (!other || other->phase == MARE__LINK_DONE)\n'
         '        return MARE__LINK_CODE_BYE;',
         'if (!other || other->phase == MARE__LINK_DONE)\n'
         '        return @ ? MARE__LINK_CODE_DENIED : MARE__LINK_CODE_BYE;')]),
    ('judge-both', 'both-dial.txt', 'when both dial, each takes the call of the other', [
        ('link_hello.c', 'return comes_first(settings->self.name, hello->name) ?',
         'return !@ && comes_first(settings->self.name, hello->name) ?')]),
    ('judge-late', 'both-dial.txt', 'a late call takes the place of the link agreed on', [
        ('link_hello.c', 'return hello->stamp <= other->peer.stamp ?',
         'return !@ && hello->stamp <= other->peer.stamp ?')]),
    ('judge-name', 'both-dial.txt', 'a second node may have the name of one that is alive', [
        ('link_hello.c', 'bool alive = other->phase == MARE__LINK_LIVE && !other->suspected;',
         'bool alive = !@ && other->phase == MARE__LINK_LIVE && !other->suspected;')]),
    ('judge-life', 'both-dial.txt', 'an earlier life of a node is as good as the last', [
        ('link_hello.c', 'if (hello->incarnation < other->peer.incarnation)',
         'if (!@ && hello->incarnation < other->peer.incarnation)')]),
    ('turns', 'pieces.txt', 'a flow goes on as long as it has something to send', [
        ('link_out.c', 'if (more) { //', 'if (more && !@) { //')]),
    ('control-last', 'pieces.txt', 'flow 0 takes its turn like any other', [
        ('link_out.c', '    if (link->control_out->first)\n        return',
         '    if (link->control_out->first && !(@ && !mare__list_empty(&link->ready)))\n'
         '        return')]),
    ('urgent-last', 'pieces.txt', 'a heartbeat waits until everything was sent', [
        ('link_out.c', '    if (link->urgent_sent < link->urgent_size || (!acks',
         '    if (@ && link->log.unsent > 0)\n        return;\n'
         '    if (link->urgent_sent < link->urgent_size || (!acks')]),
    ('version-lowest', 'versions.txt', 'the lowest common version is spoken', [
        ('link_hello.c', 'return low <= high ? high : 0;',
         'return low <= high ? (@ ? low : high) : 0;')]),
    ('version-any', 'versions.txt', 'any version will do', [
        ('link_hello.c', '    if (link->version == 0) {', '    if (link->version == 0 && !@) {')]),
    ('skip-uncounted', 'versions.txt', 'a counted frame that is skipped is not counted', [
        ('link_in.c', '    if (kind & MARE__FRAME_COUNTED)\n        count_frame',
         '    if (kind & MARE__FRAME_COUNTED && !(@ && !known))\n        count_frame')]),
    ('skip-all', 'versions.txt', 'a frame that must be understood is skipped', [
        ('link_in.c', 'return kind & MARE__FRAME_SKIPPED ? 0 : MARE__LINK_CODE_KIND;',
         'return @ || kind & MARE__FRAME_SKIPPED ? 0 : MARE__LINK_CODE_KIND;')]),
    ('length-any', 'enemy.txt', 'a frame of any length is waited for', [
        ('link_in.c', 'length <= most;', '(@ || length <= most);')]),
    ('length-none', 'rules-life.txt', 'a frame of no bytes is one', [
        ('link_in.c', 'return length > 0 &&', 'return (@ || length > 0) &&')]),
    ('handshake-ever', 'refusal.txt', 'a handshake has all the time in the world', [
        ('link.c', 'if (now - link->born_us >= link->settings->handshake_us)',
         'if (!@ && now - link->born_us >= link->settings->handshake_us)'),
        ('link.c', '        return link->born_us + link->settings->handshake_us;',
         '        return @ ? UINT64_MAX : link->born_us + link->settings->handshake_us;')]),
    ('end-crossed', 'closing.txt', 'a CLOSE that crosses an END is held against the peer', [
        ('link_flow.c',
         '    if (!flow)\n        return false;\n    event->kind = MARE__LINK_CLOSED;',
         '    if (!flow && @)\n        mare__link_fail(link, MARE__LINK_CODE_PLACE);\n'
         '    if (!flow)\n        return false;\n    event->kind = MARE__LINK_CLOSED;')]),
    # What each check of a peer's words is for: without it, a golden script tells something else.
    ('frame-larger', 'rules-flows.txt', 'a frame may be larger than was agreed', [
        ('link_in.c', 'if (data->size > link->frame)', 'if (data->size > link->frame && !@)')]),
    ('control-larger', 'rules-life.txt', 'a frame without payload may have any length', [
        ('link_in.c', 'return length > MARE__LINK_HELLO_MOST && !is_data(kind) ?',
         'return length > MARE__LINK_HELLO_MOST && !is_data(kind) && !@ ?')]),
    ('data-between', 'rules-flows.txt', 'a message may begin in the middle of another', [
        ('link_in.c', 'if ((data->kind == MARE__FRAME_REST) != (flow->total > 0))',
         'if (data->kind == MARE__FRAME_REST ? flow->total == 0 : flow->total > 0 && !@)')]),
    ('rest-none', 'rules-flows.txt', 'a piece may be empty', [
        ('link_in.c', 'return data->size == 0 ||', 'return (data->size == 0 && !@) ||')]),
    ('rest-beyond', 'rules-flows.txt', 'a piece may be longer than what is missing', [
        ('link_in.c', 'data->size > flow->total - flow->have ?',
         '(data->size > flow->total - flow->have && !@) ?')]),
    ('first-whole', 'rules-flows.txt', 'a first piece may be all there is', [
        ('link_in.c', 'data->total <= data->size))', '(data->total <= data->size && !@)))')]),
    ('hello-late', 'enemy.txt', 'a handshake may come at any time', [
        ('link_in.c', '    if (kind < MARE__FRAME_ACK)', '    if (kind < MARE__FRAME_ACK && !@)')]),
    ('hello-more', 'refusal.txt', 'who has asked need not wait for the answer', [
        ('link_in.c', 'if (link->phase == MARE__LINK_ASKED)',
         'if (link->phase == MARE__LINK_ASKED && !@)')]),
    ('magic-any', 'rules-life.txt', 'any word will do as the first', [
        ('link_hello.c', 'peer->version_max = get_u32(reader);\n'
         '    if (reader->bad || !same(word, magic)) {',
         'peer->version_max = get_u32(reader);\n'
         '    if (reader->bad || (!same(word, magic) && !@)) {')]),
    ('name-none', 'rules-life.txt', 'a node needs no name', [
        ('link_hello.c', 'peer->name.size == 0 ||', '(peer->name.size == 0 && !@) ||')]),
    ('frame-tiny', 'rules-life.txt', 'a peer may want frames of any size', [
        ('link_hello.c', 'peer->frame < MARE__LINK_FRAME_LEAST;',
         '(peer->frame < MARE__LINK_FRAME_LEAST && !@);')]),
    ('judge-self', 'rules-life.txt', 'a node may have the name of the one that it calls', [
        ('link_hello.c', 'if (same(hello->name, settings->self.name))',
         'if (same(hello->name, settings->self.name) && !@)')]),
    ('guest-none', 'guest.txt', 'who is no node is no guest either', [
        ('link_in.c', '*guest = (byte & 0xf0) == 0x90 ||',
         '*guest = (!@ && (byte & 0xf0) == 0x90) ||')]),
    ('flows-any', 'rules-flows.txt', 'a peer may open as many flows as it likes', [
        ('link_flow.c', 'link->outflows.count > link->settings->self.flows)',
         'link->outflows.count > link->settings->self.flows && !@)')]),
    ('flow-twice', 'enemy.txt', 'a peer may open a flow that is open', [
        ('link_flow.c', '} else if (mare__link_outflow(link, number)) {',
         '} else if (mare__link_outflow(link, number) && !@) {')]),
    ('credit-ahead', 'enemy.txt', 'a peer may have consumed what it was never sent', [
        ('link_flow.c', 'messages > flow->accepted_messages ||',
         '(messages > flow->accepted_messages && !@) ||'),
        ('link_flow.c', 'bytes > flow->accepted_bytes)',
         '(bytes > flow->accepted_bytes && !@))')]),
    ('credit-back', 'rules-flows.txt', 'what was consumed may count no more', [
        ('link_flow.c', 'messages < flow->consumed_messages ||',
         '(messages < flow->consumed_messages && !@) ||'),
        ('link_flow.c', 'bytes < flow->consumed_bytes ||',
         '(bytes < flow->consumed_bytes && !@) ||')]),
    ('credit-once', 'rules-flows.txt', 'a flow that ends by itself may be given credit', [
        ('link_flow.c', '(flow->once ||', '((flow->once && !@) ||')]),
    ('credit-crossed', 'rules-flows.txt', 'a CREDIT that crosses an END is held against the peer', [
        ('link_flow.c', '    if (!flow)\n        return false;\n    if',
         '    if (!flow && @)\n        mare__link_fail(link, MARE__LINK_CODE_PLACE);\n'
         '    if (!flow)\n        return false;\n    if')]),
    ('end-unknown', 'rules-flows.txt', 'what was never opened may end', [
        ('link_flow.c', '    if (!flow || flow->open_due || (',
         '    if (!flow && @)\n        return false;\n    if (!flow || flow->open_due || (')]),
    ('end-within', 'rules-flows.txt', 'a flow may end in the middle of a message', [
        ('link_flow.c', '(flow->total && !flow->closing))',
         '(flow->total && !flow->closing && !@))')]),
    ('ack-future', 'enemy.txt', 'a peer may have received what it was never sent', [
        ('link.c', 'if (!mare__link_acknowledged(link, frames)) {',
         'if (!mare__link_acknowledged(link, frames) && !@) {')]),
    ('ack-back', 'rules-life.txt', 'what was received may count no more', [
        ('link_out.c', 'if (frames < log->first || frames > log->cursor)\n        return false;',
         'if (frames < log->first || frames > log->cursor)\n'
         '        return @ && frames < log->first;')]),
    ('resume-version', 'rules-life.txt', 'a session goes on in any version', [
        ('link_hello.c', 'if (fresh->version != link->version)',
         'if (fresh->version != link->version && !@)')]),
    ('resume-other', 'rules-life.txt', 'any name of a session will do', [
        ('link_hello.c', 'difference |= a[i] ^ b[i];', 'difference |= @ ? 0 : a[i] ^ b[i];')]),
    ('resume-dialled', 'rules-life.txt', 'who was dialled may ask for the session', [
        ('link_hello.c', 'link->role != MARE__LINK_ACCEPTS ||',
         '(link->role != MARE__LINK_ACCEPTS && !@) ||')]),
    ('features-one', 'rules-life.txt', 'what one offers counts for both', [
        ('link.c', 'self->features & peer->features;',
         '@ ? self->features : self->features & peer->features;')]),
    # What a host is told, and what it is refused.
    ('silence-own', 'handshake.txt', 'each end waits as long as it likes itself', [
        ('link.c', 'self->silence_us < peer->silence_us ?',
         '@ || self->silence_us < peer->silence_us ?')]),
    ('frame-own', 'handshake.txt', 'each end sends frames as large as it takes itself', [
        ('link.c', 'self->frame < peer->frame ?', '@ || self->frame < peer->frame ?')]),
    ('asleep', 'heartbeat.txt', 'while nobody listened the peer was silent', [
        ('link.c', '    if (now_us > due) {', '    if (now_us > due && !@) {')]),
    ('pong-any', 'rules-life.txt', 'any answer is one to the last question', [
        ('link.c', 'else if (id == link->ping_id &&', 'else if ((@ || id == link->ping_id) &&')]),
    ('ping-idle', 'busy.txt', 'a link that is never idle is not measured', [
        ('link.c', 'return least(idle_at(link),',
         'return @ ? idle_at(link) : least(idle_at(link),')]),
    ('ping-both', 'heartbeat.txt', 'both ends ask, though one of them would do', [
        ('link.c', '    if (news)\n', '    if (news && !@)\n')]),
    ('beat-mute', 'heartbeat.txt', 'heartbeats carry nothing', [
        ('link_out.c', 'size_t size = settings->beat ?', 'size_t size = settings->beat && !@ ?')]),
    ('trusted-never', 'heartbeat.txt', 'that a suspicion was wrong is not told', [
        ('link.c', 'link->suspected != link->suspicion_told)',
         'link->suspected != link->suspicion_told && (!@ || link->suspected))')]),
    ('quit-silent', 'enemy.txt', 'who ends a link does not say why', [
        ('link.c', '    mare__link_put_begin(&writer, frame, MARE__FRAME_QUIT, 4);',
         '    if (@)\n        return;\n'
         '    mare__link_put_begin(&writer, frame, MARE__FRAME_QUIT, 4);')]),
    ('bye-crossed', 'bye.txt', 'who has said goodbye goes when the other says it', [
        ('link.c', 'if (kind == MARE__FRAME_BYE && link->leaving)',
         'if (kind == MARE__FRAME_BYE && link->leaving && !@)')]),
    ('bye-open', 'rules-life.txt', 'who has said goodbye may open flows', [
        ('link_flow.c', 'if (!is_up(link) || link->leaving)\n        return MARE_NONODE;',
         'if (!is_up(link) || (link->leaving && !@))\n        return MARE_NONODE;')]),
    ('told-late', 'flow.txt', 'a message passes the OPEN before it', [
        ('link_out.c', 'if ((entry = mare__list_first(&link->due_in)))',
         'if ((entry = mare__list_first(&link->due_in)) && !(@ && link->control_out->first))')]),
    ('end-early', 'closing.txt', 'a flow ends before what was sent in it', [
        ('link_flow.c', '    flow->ending = true;\n    if (!flow->first)',
         '    flow->ending = true;\n    if (!flow->first || @)'),
        ('link_out.c', 'if ((entry = mare__list_first(&link->due_out)))\n'
         '        return commit_end(link, MARE__ENTRY(entry, struct mare__link_outflow, due));',
         'if ((entry = mare__list_first(&link->due_out))) {\n'
         '        struct mare__link_outflow *going =\n'
         '            MARE__ENTRY(entry, struct mare__link_outflow, due);\n'
         '        if (@ && going->first) {\n'
         '            mare__list_remove(entry);\n'
         '            return commit_numbers(link, MARE__FRAME_END, &going->entry.number, 1);\n'
         '        }\n        return commit_end(link, going);\n    }')]),
    ('once-more', 'flow.txt', 'a flow that ends by itself takes more than it was opened for', [
        ('link_flow.c', 'return flow->once && flow->accepted_messages == flow->window.messages;',
         'return flow->once && !@ && flow->accepted_messages == flow->window.messages;')]),
    ('credit-each', 'flow.txt', 'each message is worth a CREDIT', [
        ('link_flow.c', 'if (2 * (flow->consumed_messages - flow->reported_messages) >=',
         'if ((@ ? flow->window.messages : 2) *\n'
         '            (flow->consumed_messages - flow->reported_messages) >=')]),
    ('room-never', 'STUCK', 'who was refused for want of credit is not told of room', [
        ('link_flow.c', 'flow->wants = true;', 'flow->wants = !@;')]),
    ('fed-never', 'STUCK', 'nor who was refused for want of memory', [
        ('link_flow.c', '        if (!flow->ending)\n            return tell_room',
         '        if (!flow->ending && !@)\n            return tell_room')]),
    ('close-unheard', 'closing.txt', 'of a flow nobody has heard of OPEN and CLOSE are told', [
        ('link_flow.c', 'if (flow->open_due) { // the peer has not heard of it',
         'if (flow->open_due && !@) { // the peer has not heard of it')]),
    ('open-again', 'closing.txt', 'a number that is in use can be opened again', [
        ('link_flow.c', '    if (mare__link_inflow(link, number))\n        return MARE_EXISTS;',
         '    if (mare__link_inflow(link, number) && !@)\n        return MARE_EXISTS;')]),
    ('open-many', 'rules-flows.txt', 'more flows are opened than the peer is willing to send in', [
        ('link_flow.c', '(mine < most ? mine : most) ||', '(mine < most || @ ? mine : most) ||')]),
    ('open-wide', 'rules-flows.txt', 'windows are opened for more than the host has room for', [
        ('link_flow.c', 'window.bytes > link->settings->receive - link->reserved)',
         '(window.bytes > link->settings->receive - link->reserved && !@))')]),
    ('ack-late', 'flow.txt', 'an acknowledgement takes a second', [
        ('link_in.c', 'link->ack_due_us = link->now_us + MARE__LINK_ACK_US;',
         'link->ack_due_us = link->now_us + (@ ? 1000000 : MARE__LINK_ACK_US);')]),
    ('ack-frames', 'rules-flows.txt', 'many frames are not acknowledged at once', [
        ('link_in.c', 'if (link->frames_in - link->frames_acked >= MARE__LINK_ACK_FRAMES ||',
         'if ((!@ && link->frames_in - link->frames_acked >= MARE__LINK_ACK_FRAMES) ||')]),
    ('ack-bytes', 'rules-flows.txt', 'many bytes are not acknowledged at once', [
        ('link_in.c', 'link->ack_bytes >= MARE__LINK_ACK_BYTES)',
         '(!@ && link->ack_bytes >= MARE__LINK_ACK_BYTES))')]),
    # No rule is broken: a machine of a later version, which says what this one does not know.
    ('newer', '', 'sends frames of kinds that are not known, some of them counted', [
        ('link_out.c', 'static bool commit_next(struct mare__link *link)\n{',
         'static bool commit_next(struct mare__link *link)\n{\n'
         '    if (@ && link->log.next % 7 == 3 && !link->bye_committed)\n'
         '        return commit_numbers(link, 0x61, &link->frames_in, 1);'),
        ('link_out.c', '        size = write_ack(link, frames);',
         '        size = write_ack(link, frames);\n'
         '    if (@) {\n'
         '        static const uint8_t unknown[] = {0, 0, 0, 4, 0x92, 0x41, 0xa1, 0x78};\n'
         '        memcpy(frames + size, unknown, sizeof unknown);\n'
         '        size += sizeof unknown;\n    }')]),
]


def break_rules(texts):
    rules = {}  # which have the same words replaced by the same
    for number, (_, _, _, edits) in enumerate(RULES, 1):
        for edit in edits:
            rules.setdefault(edit, []).append(f'link_broken == {number}')
    for (file, old, new), conditions in rules.items():
        if texts[file].count(old) != 1:
            sys.exit(f'broken.py: {old!r} is {texts[file].count(old)} times in {file}; it must be '
                     'there once')
        texts[file] = texts[file].replace(old, new.replace('@', f'({" || ".join(conditions)})'))


def external_names(folder):
    """Every function that is declared in the headers."""
    text = (folder / 'link.h').read_text() + (folder / 'link_inner.h').read_text()
    return set(re.findall(r'^(?!static)[a-z].*?\b(mare__link_\w+)\(', text, re.M))


def main(folder, out):
    folder = pathlib.Path(folder)
    texts = {file: (folder / file).read_text() for file in FILES}
    break_rules(texts)
    body = '\n'.join(texts[file] for file in FILES)
    names = external_names(folder)
    body = re.sub(r'\b(mare__link_\w+)\b(?=\s*\()',
                  lambda match: 'broken_' + match[1] if match[1] in names else match[1], body)
    rows = '\n'.join(f'    {{"{name}", "{caught}", "{does}"}},' for name, caught, does, _ in RULES)
    functions = re.findall(r'X\((\w+)\)', pathlib.Path(__file__).with_name('machine.h').read_text())
    entries = '\n'.join(f'    .{name} = broken_mare__link_{name},' for name in functions)
    prototypes = '\n'.join(f'static __typeof__({name}) broken_{name};' for name in sorted(names))
    body = re.sub(r'^(?!static|#|//|\s|\}|\{|enum|struct offer)([a-z].*\bbroken_mare__link_\w+\()',
                  r'static \1', body, flags=re.M)
    pathlib.Path(out).write_text(f'''// SPDX-License-Identifier: MIT
// Made by tests/link/broken.py.
#include "tests/link/broken.h"

#include "wire/link_inner.h"

int link_broken;

const struct link_rule link_rules[] = {{
{rows}
    {{NULL, NULL, NULL}},
}};

{prototypes}

{body}

const struct link_machine link_broken_machine = {{
    .name = "broken",
{entries}
}};
''')


if __name__ == '__main__':
    main(*sys.argv[1:])
