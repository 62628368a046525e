"""The classifier before the shell cache: what it calls reading changes nothing; in doubt it says no."""

import pytest

from benchmarks.shell_reads import commands, only_reads


@pytest.mark.parametrize(
    "line",
    [
        "ls",
        "ls -la src && cat README.md | head -n 20",
        "grep -rn 'a > b && c' . | wc -l; pwd",
        "find . -name '*.py' -not -path './x/*'",
        'rg -n "class Foo\\b" lib',
        "sed -n '10,20p' file.py",
        "sed -n '/def a/,/def b/p' file.py",
        "sed -n '1p;5,7p' file.py",
        "sed -n -e '$p' file.py",
        "git status",
        "git --no-pager log --oneline -5",
        "git diff HEAD~1 -- a.py",
        "echo 'nothing $HOME `date`'",
        "cat a.py # and why",
        "ls\ncat a\n",
        "ls;",
        "cat a \\\n  b",
        "grep -n 'end$' a",
        "echo \"it's fine\"",
    ],
)  # fmt: skip
def test_a_line_of_reading_commands_only_reads(line):
    assert only_reads(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "# nothing but a comment",
        "rm x",
        "ls && rm x",
        "ls; python run.py",
        "ls\nrm x",
        "cat a | tee b",
        "echo x > a",
        "cat <<'EOF' > a\nls\nEOF",
        "ls 2>/dev/null",
        "cat < a",
        "ls &",
        "ls & rm x",
        "ls || rm x",
        "ls || cat a",
        "ls &&",
        "cat $(rm x)",
        'echo "$(rm x)"',
        "echo \"it's $(rm x)'s\"",
        "echo `rm x`",
        'echo "`rm x`"',
        "cat $FILE",
        "cat ${FILE}",
        "echo $'a\\nb'",
        "(ls)",
        "echo 'open",
        "find . -name a -exec rm {} +",
        "find . -delete",
        "find . -fprint out",
        "find . -execdir rm {} ;",
        "sed -i 's/a/b/' f",
        "sed -n -i '1p' f",
        "sed -n 's/a/b/w out' f",
        "sed -n '1,5w out' f",
        "sed -n '1e rm x' f",
        "sed 's/a/b/' f",
        "sed -n",
        "git checkout a",
        "git add -A && git diff --cached",
        "git diff --output=a",
        "git grep -Ovi a",
        "git -c alias.log='!rm x' log",
        "git",
        "rg --pre ./script a",
        "FOO=1 ls",
        "/bin/ls",
        "nl a.py",
        "cd src && ls",
    ],
)  # fmt: skip
def test_whatever_might_change_something_does_not_only_read(line):
    assert not only_reads(line)


def test_a_line_falls_into_its_commands_with_quotes_removed():
    assert commands("grep -n 'a; b' \"c d\"e | head; ls ''") == [["grep", "-n", "a; b", "c de"], ["head"], ["ls", ""]]
    assert commands('echo "a \\"b\\" \\n"') == [["echo", 'a "b" \\n']]
    assert commands("a || b") == [["a"], [], ["b"]]
    assert commands("ls > x") is None
