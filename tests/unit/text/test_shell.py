"""Command lines of agents: the programs they run, and the same command in another folder."""

import time

import pytest

from helix.text.shell import (
    changes_nothing,
    find_main,
    is_reading,
    normalise_command,
    read_programs,
    share_program,
    spell_command,
)

PROGRAMS = {
    'cd /srv/app && FOO=1 timeout 60 uv run pytest -q "tests/test a.py" 2>&1 | tail -20': ["pytest", "tail"],
    "go build -o ledger ./... 2>&1 | head -30 && echo \"X=$?\"": ["go build", "head", "echo"],
    "bash -lc 'npm run lint -- --fix'": ["npm lint"],
    'git commit -m "fix: a; b && c" && git push': ["git commit", "git push"],
    "cat > a.py <<'EOF'\nimport x; rm -rf /\nEOF\npython3.11 a.py": ["cat", "a.py"],
    "python3 -m pip install foo": ["pip"],
    "npx vitest run src/x.test.ts": ["vitest"],
    "make -j4 test": ["make test"],
    "./scripts/run.sh --x": ["run.sh"],
    "PYTHONPATH=. .venv/bin/python -m pytest tests -x": ["pytest"],
    "sudo apt-get install -y foo": ["apt-get install"],
    "for f in a b; do gofmt -w $f; done": ["gofmt"],
    "(cd x; cargo test --lib)": ["cargo test"],
    "docker compose -f a.yml up -d": ["docker compose"],
    "": [],
    "cd ..": [],
    "'": ["'"],
}  # fmt: skip


@pytest.mark.parametrize("line", PROGRAMS)
def test_programs_of_a_line(line):
    assert [program.name for program in read_programs(line)] == PROGRAMS[line]


def test_the_same_command_in_another_folder_and_with_another_view_of_its_output():
    same = [
        "pytest -q tests/test_queue.py",
        "cd /srv/app && pytest -q tests/test_queue.py 2>&1 | tail -5",
        "FOO=1 timeout 60 uv run pytest -q ./tests/test_queue.py",
    ]
    assert len({normalise_command(line) for line in same}) == 1
    assert normalise_command("cat /a/b/c/d.py") == "cat c/d.py"
    assert normalise_command("pytest tests/a.py") != normalise_command("pytest tests/b.py")
    # As written they differ, where the program itself is another one.
    assert spell_command("python3 -c x") != spell_command("command python3 -c x")


def test_readers_checks_and_tests():
    for line in ("git diff main", "grep -rn x . | head", "cat a | sort", "gh pr diff 3", "sed -n 1,5p a", "ls && pwd"):
        assert is_reading(line), line
    for line in ("sed -i s/a/b/ x", "echo a && make", "tee x", "git checkout x", "python a.py"):
        assert not is_reading(line), line
    for line in ("go build ./...", "golangci-lint run", "pytest", "make lint", "npm run build"):
        assert changes_nothing(line), line
    for line in ("gofmt -w .", "ruff check --fix .", "npm install", "git checkout -b x", "rm x", "eslint --fix ."):
        assert not changes_nothing(line), line
    tests = (
        "pytest",
        "go test ./...",
        "npm run test:unit",
        "cargo nextest run",
        "make test",
        "yarn test",
        "./gradlew test",
    )
    for line in tests:
        assert any(program.runs_tests for program in find_main(line)), line
    assert not any(program.runs_tests for program in find_main("npm run build && ls tests"))


def test_a_long_or_hostile_line_takes_no_time():
    start = time.thread_time()
    for unit in ("a", "'", '"', "$(", "\\", "<<E\n", "&& ", "`", "(" * 50, "> "):
        read_programs(unit * 20_000)
    assert time.thread_time() - start < 4


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("go build -o tide ./...", "cd /x && gofmt -w . && go build -o tide ./... 2>&1 | head -30", True),
        ("go build -o tide ./...", "go build -o tide .", False),
        ("python3 -c 'a'", "python3 << 'END'\na\nEND", False),
        ("", "make", False),
    ],
)
def test_lines_that_run_one_program_alike(first: str, second: str, shared: bool) -> None:
    assert share_program(first, second) is shared
