# SPDX-License-Identifier: MIT
"""The REPL, on a pseudo-terminal."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
from terminal import Terminal  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
UP, DOWN, RIGHT, LEFT, BACKSPACE, CTRL_A, CTRL_C, CTRL_D = (
    '\x1b[A', '\x1b[B', '\x1b[C', '\x1b[D', '\x7f', '\x01', '\x03', '\x04')
no_preemption = os.environ.get('MARE_TEST_NO_PREEMPTION')


class Repl(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def open(self, home=None, arguments=(), **options):
        env = {'HOME': str(home or self.home), 'LC_ALL': 'C.UTF-8'}
        terminal = self.enterContext(Terminal(MARE, *arguments, env=env, **options))
        terminal.until_line('> ')
        return terminal

    def leaves(self, terminal, code=0):
        """Ctrl-D ends it, and leaves the terminal as it was."""
        terminal.type(CTRL_D)
        self.assertEqual(terminal.end(), code, terminal.text())

    def history(self):
        lines = (self.home / '.mare_history').read_text(encoding='utf-8').splitlines()
        return [line.replace('\\040', ' ') for line in lines[1:]]


class Completion(Repl):
    def test_tab_completes_a_name(self):
        terminal = self.open()
        terminal.type('string.for\t')
        terminal.until_line('> string.format')
        self.assertEqual(terminal.enter('("%d", 7)'), ['7'])
        terminal.type('mare.chan\t')
        terminal.until_line('> mare.channel')
        terminal.type(CTRL_C)
        terminal.until_line('> ')
        self.leaves(terminal)

    def test_tab_lists_what_is_not_decided(self):
        terminal = self.open()
        terminal.type('string.re\t')
        terminal.until(lambda: any('rep' in row and 'reverse' in row
                                   for row in terminal.screen.rows))
        terminal.until_line('> string.re')
        self.assertEqual(terminal.enter('p("ab", 2)'), ['abab'])
        self.leaves(terminal)

    def test_tab_at_the_beginning_is_a_blank(self):
        terminal = self.open()
        terminal.type('\t1')
        terminal.until_line('>     1')
        self.assertEqual(terminal.enter(' + 1'), ['2'])
        self.leaves(terminal)


class Evaluation(Repl):
    def test_it_greets_and_prompts(self):
        terminal = self.open()
        self.assertIn('Maré', terminal.screen.rows[0])
        self.assertIn('Lua 5.4', terminal.screen.rows[0])
        self.leaves(terminal)

    def test_results_are_printed(self):
        terminal = self.open()
        self.assertEqual(terminal.enter('1 + 1'), ['2'])
        self.assertEqual(terminal.enter('1, nil, "x"'), ['1       nil     x'])
        self.assertEqual(terminal.enter('return 7 // 2'), ['3'])
        self.assertEqual(terminal.enter('nil'), ['nil'])
        self.assertEqual(terminal.enter('print "one"'), ['one'])
        self.leaves(terminal)

    def test_tables_are_shown_as_they_would_be_written(self):
        terminal = self.open()
        self.assertEqual(terminal.enter('{1, "two", x = {y = true}}, 5'),
                         ['{1, "two", x = {y = true}}      5'])
        self.assertEqual(terminal.enter('= 6 * 7'), ['42'])
        rows = terminal.enter('{("a"):rep(50), ("b"):rep(50)}')
        self.assertEqual(rows, ['{', '  "' + 'a' * 50 + '",', '  "' + 'b' * 50 + '"', '}'])
        terminal.enter('function name() return "me" end')
        self.assertEqual(terminal.enter('setmetatable({}, {__tostring = name})'), ['me'])
        self.leaves(terminal)

    def test_after_a_program(self):
        program = self.home / 'app.lua'
        program.write_text('x = select("#", ...) .. arg[1] print("ran") y = nil + 1\n')
        terminal = self.open(arguments=['-i', str(program), 'one', 'two'])
        self.assertIn('ran', terminal.text())
        self.assertIn('attempt to perform arithmetic', terminal.text())
        self.assertEqual(terminal.enter('x, arg[2]'), ['2one    two'])
        self.leaves(terminal)

    def test_statements_print_nothing_and_globals_stay(self):
        terminal = self.open()
        self.assertEqual(terminal.enter('x = 5'), [])
        self.assertEqual(terminal.enter('local y = 6'), [])
        self.assertEqual(terminal.enter('x, y'), ['5       nil'])
        self.assertEqual(terminal.enter(''), [])
        self.assertEqual(terminal.enter('return'), [])
        self.leaves(terminal)

    def test_what_is_written_without_a_newline_is_seen(self):
        terminal = self.open()
        terminal.type('do io.write "no newline" end\r')
        terminal.until_line('no newline> ')
        self.leaves(terminal)

    def test_a_function_over_several_lines(self):
        terminal = self.open()
        self.assertEqual(terminal.enter('function double(n)', '>> '), [])
        self.assertEqual(terminal.enter('    return 2 * n', '>> '), [])
        self.assertEqual(terminal.enter('end'), [])
        self.assertEqual(terminal.enter('double(21)'), ['42'])
        self.leaves(terminal)

    def test_other_beginnings_are_continued(self):
        for first, last, result in (('6 *', '7', '42'), ('x =', '1', None),
                                    ('{1, 2', '}', '{1, 2}'), ('#[[a', 'b]]', '3'),
                                    ('--[[ a comment', ']] 1', None),
                                    ('if true then', 'print "so" end', 'so')):
            with self.subTest(first):
                terminal = self.open()
                self.assertEqual(terminal.enter(first, '>> '), [])
                rows = terminal.enter(last)
                if result:
                    self.assertEqual(len(rows), 1, rows)
                    self.assertTrue(rows[0].startswith(result), rows)
                self.assertEqual(terminal.enter('6 * 7'), ['42'])

    def test_a_syntax_error_is_told_and_it_goes_on(self):
        terminal = self.open()
        self.assertEqual(terminal.enter('x = = 1'), ["stdin:1: unexpected symbol near '='"])
        self.assertEqual(terminal.enter('1 + 1'), ['2'])
        self.leaves(terminal)

    def test_a_runtime_error_comes_with_its_traceback(self):
        terminal = self.open()
        terminal.enter('function f() error "oops" end')
        rows = terminal.enter('x = f()')
        self.assertEqual(rows[:2], ['stdin:1: oops', 'stack traceback:'])
        self.assertIn('stdin:1: in function', '\n'.join(rows))
        self.assertIn('in main chunk', rows[-1])
        self.assertNotIn('_repl', '\n'.join(rows))
        self.assertEqual(terminal.enter('1 + 1'), ['2'])
        self.leaves(terminal)

    def test_errors_that_are_no_strings(self):
        terminal = self.open()
        self.assertEqual(terminal.enter('error {}')[0], '{}')
        self.assertEqual(terminal.enter('error {code = 5}')[0], '{code = 5}')
        self.assertEqual(terminal.enter('error()')[0], '(error object is a nil value)')
        self.assertEqual(terminal.enter('error(42)')[0], '42')
        show = 'setmetatable({}, {__tostring = function() return "as text" end})'
        self.assertEqual(terminal.enter(f'error({show})'), ['as text'])
        terminal.enter('error(setmetatable({}, {__tostring = function() error "worse" end}))')
        self.assertEqual(terminal.enter('1 + 1'), ['2'])
        self.leaves(terminal)

    def test_results_that_cannot_be_printed(self):
        terminal = self.open()
        rows = terminal.enter('setmetatable({}, {__tostring = function() error "hidden" end})')
        self.assertIn("error calling 'print'", rows[0])
        self.assertIn('hidden', rows[0])
        self.leaves(terminal)

    def test_it_needs_no_global_that_the_program_may_change(self):
        terminal = self.open()
        terminal.enter('keep = print')
        names = 'load pcall xpcall select type tostring getmetatable string debug io print require'
        for name in names.split():
            terminal.enter(f'{name} = nil')
        self.assertEqual(terminal.enter('keep(6 * 7)'), ['42'])
        self.assertIn("error calling 'print'", terminal.enter('1')[0])
        self.assertEqual(terminal.enter('x = = 1'), ["stdin:1: unexpected symbol near '='"])
        self.assertIn('attempt to call a nil value', terminal.enter('nothing()')[0])
        self.leaves(terminal)

    def test_a_program_reads_the_terminal(self):
        terminal = self.open()
        terminal.type('io.read()\r')
        terminal.until(terminal.is_cooked)
        terminal.type('typed\n')
        terminal.until(lambda: terminal.screen.line() == '> '
                       and terminal.screen.rows[-2:] == ['typed', '> '])
        self.leaves(terminal)

    def test_output_may_go_elsewhere(self):
        with tempfile.NamedTemporaryFile() as file:
            terminal = self.open(stdout=file.name)
            self.assertEqual(terminal.enter('6 * 7'), [])
            self.assertIn('stdin:1: oops', terminal.enter('error "oops"'))
            self.leaves(terminal)
            self.assertEqual(file.read(), b'42\n')


class Editing(Repl):
    def test_a_line_is_edited(self):
        terminal = self.open()
        self.assertEqual(terminal.enter('1 + 3' + BACKSPACE + '1' + CTRL_A + '4'), ['42'])
        self.assertEqual(terminal.enter('"ac"' + LEFT * 2 + 'b'), ['abc'])
        self.leaves(terminal)

    def test_letters_of_more_than_one_byte(self):
        terminal = self.open()
        self.assertEqual(terminal.enter('#"maré", "maré"'), ['5       maré'])
        self.assertEqual(terminal.enter('#"é' + BACKSPACE + '€' + BACKSPACE + 'x"'), ['1'])
        self.assertEqual(terminal.enter('("É"):lower()'), ['É'], 'Lua is still in the C locale')
        self.leaves(terminal)

    def test_the_arrow_recalls_lines(self):
        terminal = self.open()
        terminal.enter('x = 1')
        terminal.enter('x = x + 1')
        terminal.type(UP)
        terminal.until_line('> x = x + 1')
        self.assertEqual(terminal.enter(''), [])
        terminal.type(UP + UP)
        terminal.until_line('> x = 1')
        terminal.type(DOWN)
        terminal.until_line('> x = x + 1')
        terminal.type(CTRL_C)
        terminal.until_line('> ')
        self.assertEqual(terminal.enter('x'), ['3'])
        self.leaves(terminal)

    def test_history_survives_to_the_next_start(self):
        terminal = self.open()
        terminal.enter('first = 1')
        terminal.enter('function f()', '>> ')
        terminal.enter('end')
        self.leaves(terminal)
        self.assertEqual(self.history(), ['first = 1', 'function f()', 'end'])
        terminal = self.open()
        terminal.type(UP + UP + UP)
        terminal.until_line('> first = 1')
        terminal.type('2')
        self.assertEqual(terminal.enter(''), [])
        self.assertEqual(terminal.enter('first'), ['12'])
        self.leaves(terminal)
        self.assertEqual(self.history()[-2:], ['first = 12', 'first'])

    def test_a_history_that_cannot_be_used_is_no_failure(self):
        bad = self.home / 'bad'
        (bad / '.mare_history').mkdir(parents=True)
        garbage = self.home / 'garbage'
        garbage.mkdir()
        (garbage / '.mare_history').write_bytes(b'\x00\xff\\0\\9\n' * 1000)
        for home in (bad, garbage, self.home / 'nonexistent'):
            with self.subTest(home):
                terminal = self.open(home=home)
                self.assertEqual(terminal.enter('1 + 1'), ['2'])
                terminal.type(UP)
                terminal.until_line('> 1 + 1')
                terminal.type(CTRL_C)
                terminal.until_line('> ')
                self.leaves(terminal)


class Interrupts(Repl):
    @unittest.skipIf(no_preemption, 'no preemption of tight loops in this build')
    def test_an_endless_loop(self):
        terminal = self.open()
        terminal.enter('function spin() print "begun" while true do end end')
        terminal.type('spin()\r')
        terminal.until(lambda: 'begun' in terminal.screen.rows)
        terminal.type(CTRL_C)
        terminal.until_text('interrupted!')
        terminal.until_line('> ')
        self.assertIn('in function', terminal.text())
        self.assertEqual(terminal.enter('1 + 1'), ['2'])
        self.leaves(terminal)

    def test_a_wait_that_has_no_end(self):
        for wait in ('mare.channel():receive()', 'mare.sleep(3600)', 'mare.channel():send(1)',
                     'require"luaproc".newchannel"c" require"luaproc".receive"c"'):
            with self.subTest(wait):
                terminal = self.open()
                terminal.type(f'print "begun" {wait}\r')
                terminal.until(lambda: 'begun' in terminal.screen.rows)
                terminal.type(CTRL_C)
                terminal.until_text('interrupted!')
                terminal.until_line('> ')
                self.assertEqual(terminal.enter('1 + 1'), ['2'])

    def test_it_hits_what_is_evaluated_and_no_routine(self):
        terminal = self.open()
        terminal.enter('turns = 0')
        terminal.enter('function work() while turns do turns = turns + 1 mare.yield() end end')
        terminal.enter('for i = 1, 100 do busy = mare.go(work) end')
        for wait in ('mare.channel():receive()', 'busy:join()', 'while true do mare.yield() end'):
            with self.subTest(wait):
                terminal.type(f'print "begun" {wait}\r')
                terminal.until(lambda: terminal.screen.rows[terminal.screen.row - 1] == 'begun')
                terminal.type(CTRL_C)
                terminal.until_line('> ')
                self.assertIn('interrupted!', terminal.text())
                self.assertEqual(terminal.enter('busy:status()'), ['alive'])
        terminal.enter('turns = nil')
        self.leaves(terminal)

    def test_what_was_typed_is_dropped(self):
        terminal = self.open()
        terminal.type('1 + ')
        terminal.until_line('> 1 + ')
        terminal.type(CTRL_C)
        terminal.until_line('> ')
        self.assertEqual(terminal.enter('2'), ['2'])
        self.assertEqual(terminal.enter('function f(', '>> '), [])
        terminal.type(CTRL_C)
        terminal.until_line('> ')
        self.assertEqual(terminal.enter('3'), ['3'])
        for row in range(terminal.screen.row + 1, terminal.screen.row + 6):
            terminal.type(CTRL_C)
            terminal.until(lambda: terminal.screen.row == row and terminal.screen.line() == '> ')
        self.assertEqual(terminal.enter('4'), ['4'])
        self.leaves(terminal)

    def test_a_signal_at_the_prompt_does_not_end_it(self):
        terminal = self.open()
        # The signal comes before the line, while it is evaluated, or between its result and its
        # end. The process sees it at a tick, so it cannot tell the last two apart.
        for _ in range(5):
            terminal.signal(signal.SIGINT)
            said = ' '.join(terminal.enter('1 + 1'))
            self.assertRegex(said, '^(2|interrupted!( stack traceback:.*)?|2 interrupted!)$')
        row = terminal.screen.row + 1
        terminal.type(CTRL_C)
        # Between two lines the terminal is as a shell wants it, and Ctrl-D no key.
        terminal.until(lambda: terminal.screen.row == row and terminal.screen.line() == '> ')
        terminal.until(lambda: terminal.has_taken(signal.SIGINT))
        self.leaves(terminal)

    def test_a_signal_before_the_end_of_input_does_not_end_it(self):
        """However late the thread comes that watches for signals."""
        terminal = self.open()
        go = self.home / 'go'
        terminal.enter('function wait(go) while not io.open(go) do mare.sleep(0.01) end end')
        terminal.enter(f'p = mare.spawn(wait, "{go}")')
        try:
            with terminal.held('mare-signals'):
                terminal.signal(signal.SIGINT)
                terminal.until(lambda: terminal.has_taken(signal.SIGINT))
                terminal.type(CTRL_D)
                terminal.until(terminal.is_cooked)
        except PermissionError:
            self.skipTest('no thread can be held here')
        go.touch()
        self.assertEqual(terminal.end(), 0, terminal.text())

    def test_signals_at_any_time_do_not_end_it(self):
        terminal = self.open()
        over = threading.Event()

        def shoot():
            while not over.is_set():
                terminal.signal(signal.SIGINT)
                over.wait(0.0005)

        shooter = threading.Thread(target=shoot)
        shooter.start()
        try:
            for _ in range(100):
                terminal.enter('for i = 1, 1000 do x = i end')
        finally:
            over.set()
            shooter.join()
        terminal.until(lambda: terminal.has_taken(signal.SIGINT))
        terminal.enter('x = 0')  # perhaps the last one meets this
        self.assertEqual(terminal.enter('6 * 7'), ['42'])
        self.leaves(terminal)


class Processes(Repl):
    def test_they_are_spawned_and_joined(self):
        terminal = self.open()
        self.assertEqual(terminal.enter('p = mare.spawn(function() return 6 * 7 end)'), [])
        self.assertEqual(terminal.enter('p:join()'), ['true    42'])
        terminal.enter('ch = mare.channel()')
        terminal.enter('function greet(ch) mare.sleep(0) ch:send("hello") end')
        terminal.enter('p = mare.spawn(greet, ch)')
        self.assertEqual(terminal.enter('ch:receive()'), ['hello'])
        self.leaves(terminal)

    def test_one_that_dies_is_reported_above_the_line(self):
        terminal = self.open()
        terminal.enter('p = mare.spawn(function() error("boom", 0) end)')
        terminal.type('6 *')  # it is reported when nobody has asked for a second
        terminal.until(lambda: 'stack traceback:' in terminal.text()
                       and terminal.screen.line() == '> 6 *')
        rows = terminal.screen.rows
        report = next(i for i, row in enumerate(rows) if 'died: boom' in row)
        self.assertRegex(rows[report], r'^mare: process \d+ died: boom$')
        self.assertEqual(rows.count('> 6 *'), 1, 'its row was used for the report')
        self.assertEqual(terminal.enter(' 7'), ['42'])
        self.leaves(terminal)

    def test_routines_go_on_while_the_prompt_waits(self):
        terminal = self.open()
        terminal.enter('ch = mare.channel()')
        self.assertEqual(terminal.enter('mare.go(function() for w in ch:messages() do print(w) end'
                                        ' print "over" end)'), ['routine 2'])
        terminal.enter('mare.spawn(function(c) c:send "one" end, ch)')
        terminal.until(lambda: 'one' in terminal.screen.rows)
        terminal.enter('ch:send "two"')
        terminal.until(lambda: 'two' in terminal.screen.rows)
        terminal.enter('ch:close()')
        terminal.until(lambda: 'over' in terminal.screen.rows)
        terminal.enter('mare.go(function() error("of a routine", 0) end)')
        terminal.until_text('mare: routine 3 of process 1 died: of a routine')
        terminal.until_line('> ')  # again, after the report
        self.assertEqual(terminal.enter('1 + 1'), ['2'])
        self.leaves(terminal)

    def test_one_that_prints_leaves_the_line_whole(self):
        terminal = self.open()
        terminal.enter('p = mare.spawn(function() for i = 1, 3 do mare.sleep(0.05) print(i) end '
                       'end)')
        terminal.type('6 *')
        terminal.until(lambda: terminal.screen.rows[-4:] == ['1', '2', '3', '> 6 *'])
        self.assertEqual(terminal.enter(' 7'), ['42'])
        self.leaves(terminal)

    def test_the_death_of_its_own_process_ends_it(self):
        terminal = self.open()
        terminal.type('mare.self():kill "enough"\r')
        self.assertEqual(terminal.end(), 1)
        self.assertIn('mare: the main process was killed: enough', terminal.text())


class Ends(Repl):
    def test_the_end_of_input(self):
        terminal = self.open()
        terminal.type('x')
        terminal.type(CTRL_D)  # a line is there: not the end
        self.assertEqual(terminal.enter('yz = 1' + CTRL_A + RIGHT + CTRL_D * 2), [])
        self.assertEqual(terminal.enter('x'), ['1'])
        self.leaves(terminal)

    def test_the_end_waits_for_processes(self):
        terminal = self.open()
        terminal.enter('p = mare.spawn(function() mare.sleep(0.1) print "the last" end)')
        self.leaves(terminal)
        self.assertIn('the last', terminal.screen.rows)

    def test_the_end_can_be_interrupted(self):
        terminal = self.open()
        terminal.enter('p = mare.spawn(function() mare.sleep(3600) end)')
        terminal.type(CTRL_D)
        terminal.until(terminal.is_cooked)
        terminal.type(CTRL_C)
        self.assertEqual(terminal.end(), 130)

    def test_exit_codes(self):
        for call, code in (('os.exit(3)', 3), ('mare.exit(4)', 4), ('os.exit()', 0),
                           ('os.exit(false)', 1)):
            with self.subTest(call):
                terminal = self.open()
                terminal.type(call + '\r')
                self.assertEqual(terminal.end(), code)
                self.assertEqual(self.history()[-1], call)

    def exit_later(self, terminal, code):
        """Another process, which exits with the code when the file is there that is returned."""
        terminal.enter('go = os.getenv "HOME" .. "/go"')
        terminal.enter('function exit(go, code) while not io.open(go) do mare.sleep(0.01) end '
                       'os.exit(code) end')
        terminal.enter(f'p = mare.spawn(exit, go, {code})')
        return self.home / 'go'

    def test_another_process_exits_while_a_line_is_typed(self):
        terminal = self.open()
        go = self.exit_later(terminal, 5)
        terminal.type('half a li')
        terminal.until_line('> half a li')
        go.touch()
        self.assertEqual(terminal.end(), 5)
        self.assertTrue(terminal.is_cooked())

    @unittest.skipIf(no_preemption, 'no preemption of tight loops in this build')
    def test_another_process_exits_during_an_endless_loop(self):
        terminal = self.open()
        go = self.exit_later(terminal, 6)
        terminal.type('print "begun" while true do end\r')
        terminal.until(lambda: 'begun' in terminal.screen.rows)
        go.touch()
        self.assertEqual(terminal.end(), 6)

    def test_signals_that_end_it(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                terminal = self.open()
                terminal.enter('kept = 1')
                terminal.signal(number)
                self.assertEqual(terminal.end(), 128 + number)
                self.assertTrue(terminal.is_cooked())
                self.assertEqual(self.history()[-1], 'kept = 1')

    def test_the_terminal_goes_away(self):
        terminal = self.open()
        terminal.hang_up()
        # It may see the end of the input before the signal comes.
        self.assertIn(terminal.end(), (128 + signal.SIGHUP, 0))


class Attached(Repl):
    def attach(self, console):
        """`mare attach` to a node that offers this console."""
        node = subprocess.Popen([MARE, '-e', f'''
            local mare, node = require "mare", require "mare.node"
            require "mare.log".setup {{level = "off"}}
            print(node.start {{name = "ebb", listen = "127.0.0.1:0", {console}
            io.stdout:flush()
            mare.sleep(1000)'''], stdout=subprocess.PIPE, text=True)
        self.addCleanup(node.stdout.close)
        self.addCleanup(node.wait)
        self.addCleanup(node.kill)
        return self.open(arguments=['attach', node.stdout.readline().strip()])

    def test_lines_are_evaluated_in_the_node(self):
        terminal = self.attach('attach = {"everybody"}})')
        self.assertEqual(terminal.screen.rows[0], 'attached to ebb; Ctrl-D ends')
        self.assertEqual(terminal.enter('#mare.processes() > 0, ...'), ['true'])
        self.assertEqual(terminal.enter('require "mare.node"._name()'), ['ebb'])
        terminal.type('for i = 1, 2 do\r')
        terminal.until_line('>> ')
        self.assertEqual(terminal.enter('print(i) end'), ['1', '2'])
        self.leaves(terminal)

    def test_a_node_that_lies_about_its_name_does_not_command_the_terminal(self):
        for name, shown in (r'"\27]0;x\7ebb"', '?]0;x?ebb'), ('5', '5'):
            with self.subTest(name):
                terminal = self.attach(f'''}})
                    node.export("mare.attach", function(_, answers)
                        answers:send("ready", {name})
                        require "mare".sleep(1000)
                    end)''')
                self.assertEqual(terminal.screen.rows[0], f'attached to {shown}; Ctrl-D ends')
                self.leaves(terminal)


tap.main(__name__)
