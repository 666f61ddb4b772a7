# Tests traces in a folder where other users may make files, too: their files are not used, their links not followed.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

test "$(id -u)" -eq 0 || skip_all 'only root can make files of two users'
other='setpriv --reuid=65533 --regid=65533 --clear-groups'
user='setpriv --reuid=65534 --regid=65534 --clear-groups'
chmod 755 "$scratch"
$user test -r "$top_builddir/tidemark" 2>/dev/null || skip_all 'there is no other user to become'
plan 20

printf 'Thread,Time,Action,Pointer,Size,Stream\n1,1,allocate,0x10,100,0\n1,2,free,0x10,100,0\n' >"$scratch/one.csv"
chmod 644 "$scratch/one.csv"

# shared NAME: make a folder like /tmp, and set $trace to a path in it.
shared() {
    mkdir "$scratch/$1" && chmod 1777 "$scratch/$1"
    trace=$scratch/$1/t.db
}

# record ARGUMENT...: record into $trace as the user; print the messages and the exit status.
record() {
    tap_said=$($user "$tidemark" replay --stack "log($trace$1) | sim" "$scratch/one.csv" 2>&1 >/dev/null)
    echo "$tap_said $?"
}

modes() {
    (cd "${trace%/*}" && stat -c '%n %a' ./*)
}

# The mode of what is made.
shared modes
record >/dev/null
is "$(modes)" './t.db 600' 'a trace is for its owner alone'
is "$(record ', overwrite=true, mode=0640') $(modes)" ' 0 ./t.db 640' 'mode= gives a trace other permissions'
is "$(umask 077; record ', overwrite=true, mode=0666') $(modes)" ' 0 ./t.db 600' 'the umask takes from the permissions'
has_words "$(record ', overwrite=true, mode=0400')" "argument 'mode': '0400' is too small, expected permissions from 0600 to 0666" \
    'a mode that the owner may not write is refused'
has_words "$(record ', overwrite=true, mode=0755')" "argument 'mode': '0755' has a right to execute" \
    'a mode with a right to execute is refused'
has_words "$(record ', overwrite=true, mode=rw')" "argument 'mode': 'rw' is no mode in octal" 'a mode in letters is refused'
has_words "$(record ', overwrite=true, mode=0680')" "is no mode in octal" 'a mode with a digit over 7 is refused'
has_words "$(record ', overwrite=true, mode=01666')" 'is too large' 'a mode with a sticky bit is refused'
"$tidemark" import -o "$scratch/imported.db" "$scratch/one.csv" >/dev/null 2>&1
"$tidemark" recover --into="$scratch/copied.db" "$trace" >/dev/null 2>&1
is "$(stat -c %a "$scratch/imported.db" "$scratch/copied.db" | tr '\n' ' ')" '600 600 ' \
    'a trace that import or recover --into makes is for its owner alone'
# While it is recorded, the files beside it have the same permissions.
mkfifo "$scratch/in" "$scratch/out"
trace=$scratch/live.db
(umask 022; exec "$top_builddir/tests/recording" "$trace" <"$scratch/in" >"$scratch/out") &
recording=$!
exec 3>"$scratch/in" 4<"$scratch/out"
read -r ready <&4
is "$ready $(cd "$scratch" && stat -c '%n %a' live.db*)" 'ready live.db 600
live.db-rings 600
live.db-shm 600
live.db-wal 600' 'the files beside a trace have its permissions'
kill -9 "$recording"
wait "$recording" 2>/dev/null
exec 3>&- 4<&-

# What another user has planted. The target of each link is the user's own.
for suffix in -rings -wal -shm -begun -replaced; do
    shared "link$suffix"
    $user touch "$scratch/link$suffix/mine" && chmod 600 "$scratch/link$suffix/mine"
    $user sh -c "echo keep >'$scratch/link$suffix/mine'"
    $other ln -s "$scratch/link$suffix/mine" "$trace$suffix"
    record ', overwrite=true' >/dev/null
    is "$(cat "$scratch/link$suffix/mine")" keep "a symbolic link at t.db$suffix is not followed"
done

# killed: lay the files of the killed recording out as the user's.
killed() {
    shared "$1"
    for tap_suffix in '' -wal -rings; do
        cp "$scratch/live.db$tap_suffix" "$trace$tap_suffix" && chown 65534:65534 "$trace$tap_suffix"
    done
}
killed rings
chown 65533 "$trace-rings"
has_words "$($user "$tidemark" recover "$trace" 2>&1; echo $?)" "belongs to user 65533, and $trace to user 65534: it is not used
2" 'the ring file of another user is not taken in'
has_words "$($user "$tidemark" recover --into="$scratch/rings/copy.db" "$trace" 2>&1; echo $?)" 'belongs to user 65533' \
    'recover --into does not take in the ring file of another user'
has_words "$(record ', overwrite=true')" 'belongs to user 65533' \
    'a trace beside the ring file of another user is not replaced'
killed log
rm "$trace-rings" && chown 65533 "$trace-wal"
has_words "$($user "$tidemark" summary "$trace" 2>&1; echo $?)" "$trace-wal beside it belongs to user 65533: it is not used
2" 'no command reads the write-ahead log of another user'
killed root
has_words "$("$tidemark" recover "$trace" 2>&1; echo $?)" 'were taken over
0' 'root recovers what belongs to a user'

done_testing
