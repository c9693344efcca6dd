#!/bin/sh
# Checks Stacks in a pipeline: lint -> SARIF, test -> JUnit, diff -> one comment that is updated.
# docs/pipelines.md describes the variables. Needs sh, curl and python3, which kubectl stack needs as well.
set -u

STACK=${HEARTH_COMMAND:-kubectl stack}
FILES=${HEARTH_FILES:-.}
TESTS=${HEARTH_TESTS:-}
SARIF=${HEARTH_SARIF:-hearth-lint.sarif}
JUNIT=${HEARTH_JUNIT:-hearth-tests.xml}
DIFF=${HEARTH_DIFF:-}
NAME=${HEARTH_NAME:-stacks}
MARK="<!-- hearth: $NAME -->"
# GitHub refuses comments of more than 65,536 characters.
LONGEST=60000
PAGES=20

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
result=0
# The repository may contain them, also as links to other files.
rm -f "$SARIF" "$JUNIT"
# Lines of the output may contain text of the repository, and GitHub would run commands in it.
if [ -n "${GITHUB_ACTIONS:-}" ]; then
    resume=$(python3 -c 'import secrets; print(secrets.token_hex(16))') || exit 2
    echo "::stop-commands::$resume"
    trap 'rm -rf "$work"; echo "::$resume::"' EXIT
fi

fail() {
    echo "hearth: $*" >&2
    result=1
}

# Lists paths, one per line; spaces in paths are allowed.
list() {
    printf '%s\n' "$1" | sed '/^[[:space:]]*$/d'
}

# Runs kubectl stack with the arguments, then the paths, one per line, of the first argument.
on_paths() {
    paths=$1
    shift
    while IFS= read -r path; do
        set -- "$@" "$path"
    done <<EOT
$(list "$paths")
EOT
    # shellcheck disable=SC2086 # the command may have several words
    $STACK "$@"
}

run_lint() {
    on_paths "$FILES" lint --allow-none --output sarif >"$SARIF"
    code=$?
    # Without a report, the step that uploads it is skipped.
    [ -s "$SARIF" ] || rm -f "$SARIF"
    if [ $code -eq 1 ] && [ -s "$SARIF" ]; then
        fail "lint found mistakes; see $SARIF"
        on_paths "$FILES" lint --allow-none >&2
    elif [ $code -ne 0 ]; then
        fail "lint cannot read the files; check HEARTH_FILES"
    fi
}

run_tests() {
    on_paths "$TESTS" test --junit "$JUNIT"
    case $? in
        0) ;;
        1) fail "tests failed; see $JUNIT" ;;
        *) fail "the tests cannot run; check HEARTH_TESTS" ;;
    esac
}

run_diff() {
    : >"$work/body"
    list "$DIFF" >"$work/files"
    is_changed=false
    while IFS= read -r file; do
        # shellcheck disable=SC2086
        $STACK diff -f "$file" -o markdown >"$work/diff" 2>"$work/errors"
        code=$?
        cat "$work/errors" >&2
        case $code in
            0) continue ;;
            1) ;;
            *) fail "the change of $file cannot be previewed" ;;
        esac
        is_changed=true
        printf '#### `%s`\n\n' "$(printf '%s' "$file" | tr -d '`')" >>"$work/body"
        if [ $code -gt 1 ] && ! [ -s "$work/diff" ]; then
            sed 's/^/    /' "$work/errors" >"$work/diff"
        fi
        cat "$work/diff" >>"$work/body"
        echo >>"$work/body"
    done <"$work/files"
    $is_changed || echo 'No changes.' >>"$work/body"
    cat "$work/body"
    if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
        cat "$work/body" >>"$GITHUB_STEP_SUMMARY"
    fi
    post_comment
}

# Finds the code host and the pull or merge request; empty without one.
find_request() {
    host=
    if [ -n "${GITHUB_REPOSITORY:-}" ] && [ -n "${GITHUB_EVENT_PATH:-}" ]; then
        number=$(python3 -c 'import json, sys
event = json.load(open(sys.argv[1]))
print((event.get("pull_request") or {}).get("number") or "")' "$GITHUB_EVENT_PATH") || number=
        token=${HEARTH_TOKEN:-${GITHUB_TOKEN:-}}
        api=${GITHUB_API_URL:-https://api.github.com}/repos/$GITHUB_REPOSITORY
        comments=$api/issues/$number/comments
        existing=$api/issues/comments
        user=${GITHUB_API_URL:-https://api.github.com}/user
        update=PATCH
        header="Authorization: Bearer $token"
        [ -n "$number" ] && host=GitHub
    elif [ -n "${CI_MERGE_REQUEST_IID:-}" ]; then
        token=${HEARTH_TOKEN:-}
        comments=$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes
        existing=$comments
        user=$CI_API_V4_URL/user
        update=PUT
        header="PRIVATE-TOKEN: $token"
        host=GitLab
    fi
}

# Sends a request: method, URL, and a file with the body. The token is in no argument, because other users can see those.
send() {
    printf 'header = "%s"\nheader = "Content-Type: application/json"\n' "$header" |
        curl --config - --silent --show-error --fail-with-body --max-time 60 --retry 2 \
            --request "$1" ${3:+--data-binary "@$3"} "$2"
}

# Prints the number of the comment that an earlier run wrote: with the mark, and by the user of the token. Others could
# change theirs later. A token of an app or job on GitHub has no user; its comments are those of bots.
find_comment() {
    send GET "$user" >"$work/user" 2>"$work/errors" || : >"$work/user"
    page=1
    while [ $page -le $PAGES ]; do
        send GET "$comments?per_page=100&page=$page" >"$work/page" || return 1
        python3 -c 'import json, sys
found, text = json.load(open(sys.argv[1])), open(sys.argv[3]).read()
user = json.loads(text)["id"] if text else None
def is_own(comment):
    author = comment.get("user") or comment.get("author") or {}
    if not str(comment.get("body") or "").startswith(sys.argv[2]):
        return False
    return author.get("type") == "Bot" if user is None else author.get("id") == user
own = [each["id"] for each in found if is_own(each)]
print(own[0] if own else "" if found else "none")' "$work/page" "$MARK" "$work/user" >"$work/found" || return 1
        read -r found <"$work/found" || found=
        case $found in
            none) return 0 ;;
            '') page=$((page + 1)) ;;
            *)
                echo "$found"
                return 0
                ;;
        esac
    done
}

post_comment() {
    find_request
    [ -n "$host" ] || return 0
    if [ -z "$token" ]; then
        fail "cannot comment on $host: HEARTH_TOKEN is not set; set it to a token that can write comments"
        return
    fi
    python3 -c 'import json, sys
mark, longest = sys.argv[2], int(sys.argv[3])
body = open(sys.argv[1], encoding="utf-8", errors="replace").read()
if len(body) > longest:
    body, fence = body[:longest].rsplit("\n", 1)[0], ""
    for line in body.split("\n"):
        ticks = line[:len(line) - len(line.lstrip("`"))]
        if not fence and len(ticks) > 2:
            fence = ticks
        elif fence and line == ticks and len(ticks) >= len(fence):
            fence = ""
    body += (f"\n{fence}" if fence else "") + "\n\nThe rest is in the log of the pipeline.\n"
json.dump({"body": f"{mark}\n### Changes of Stacks\n\n{body}"}, sys.stdout)' \
        "$work/body" "$MARK" "$LONGEST" >"$work/comment" || { fail "cannot write the comment"; return; }
    if ! id=$(find_comment); then
        fail "cannot read the comments on $host; check the permissions of HEARTH_TOKEN"
        return
    fi
    if [ -n "$id" ]; then
        set -- "$update" "$existing/$id"
    else
        set -- POST "$comments"
    fi
    send "$@" "$work/comment" >"$work/answer" ||
        fail "cannot comment on $host: $(head -c 300 "$work/answer" | tr '\n' ' '); check the permissions of HEARTH_TOKEN"
}

run_lint
[ -z "$TESTS" ] || run_tests
[ -z "$DIFF" ] || run_diff
exit $result
