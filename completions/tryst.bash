# SPDX-License-Identifier: Apache-2.0
# bash completion for tryst

_tryst() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local shared="--strategy --replicas --levels --spread --partitions --per-node --node --json --help"
    local words=""
    if ((COMP_CWORD == 1)); then
        words="timer status cluster bench receive log place plan keyspace backup import cron pops clock token help --token-file --ca --help --version"
    elif [[ $command == help ]]; then
        words="timer status cluster bench receive log place plan keyspace backup import cron pops clock token"
    elif [[ $command == timer && $COMP_CWORD == 2 ]]; then
        words="add set get where cancel fire redrive ls --help"
        elif [[ $command == cluster && $COMP_CWORD == 2 ]]; then
        words="status join leave apply resync --help"
    elif [[ $command == log && $COMP_CWORD == 2 ]]; then
        words="check dump repair --help"
    elif [[ $command == log ]]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
    elif [[ $word == -* && $command == timer ]]; then
        words="--in --at --cron --zone --until --missed --jitter --method --header --timeout --named --name-prefix --all --dry-run --to --repeat-for --count --tag --replicas --key --content-type --dead --cluster --must-exist --node --json --help"
    elif [[ $word == -* && $command == status ]]; then
        words="--node --json --help"
        elif [[ $word == -* && $command == cluster ]]; then
        words="--node --watch --secret-file --dry-run --yes --force --json --help"
    elif [[ $command == cluster && ${COMP_WORDS[2]} == apply ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    elif [[ $command == backup && $COMP_CWORD == 2 ]]; then
        words="create inspect restore --help"
    elif [[ $word == -* && $command == backup ]]; then
        words="--node --merge --help"
    elif [[ $command == backup ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    elif [[ $word == -* && $command == bench ]]; then
        words="--timers --connections --node --json --help"
    elif [[ $word == -* && $command == receive ]]; then
        words="--count --status --delay --secret-file --help"
    elif [[ $word == -* && $command == pops ]]; then
        words="--follow --limit --state --node --json --help"
    elif [[ $command == clock && $COMP_CWORD == 2 ]]; then
        words="show advance run stop --node --help"
    elif [[ $word == -* && $command == clock ]]; then
        words="--node --help"
    elif [[ $before == --token-file || $before == --tokens-file || $before == --ca ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    elif [[ $command == token && $COMP_CWORD == 2 ]]; then
        words="new --help"
    elif [[ $before == --scope ]]; then
        words="read write admin tag: prefix: keys: rate= pending="
    elif [[ $word == -* && $command == token ]]; then
        words="--scope --tokens-file --help"
    elif [[ $command == import && $COMP_CWORD == 2 ]]; then
        words="chronos --help"
    elif [[ $word == -* && $command == import ]]; then
        words="--from --to --view --dry-run --help"
    elif [[ $before == --strategy ]]; then
        words="chronos rendezvous carp virtual skeleton crush ring keyspace"
    elif [[ $before == --gap ]]; then
        words="after skip"
    elif [[ $before == --overlap ]]; then
        words="first last both"
    elif [[ $word == -* && $command == cron ]]; then
        words="--zone --from --count --gap --overlap --help"
    elif [[ $before == --svg ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    elif [[ $word == -* && $command == place ]]; then
        words="$shared --ids --positions"
    elif [[ $word == -* && $command == plan ]]; then
        words="$shared --add --remove --keys --svg"
    elif [[ $word == -* && $command == keyspace ]]; then
        words="--cluster --partitions --replicas --per-node --node --ring --svg --json --help"
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o filenames -F _tryst tryst
