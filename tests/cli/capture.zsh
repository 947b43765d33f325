# Read by an interactive zsh on a terminal of its own: completes every line of the file $LINES_FILE with the script in the folder
# $COMPLETIONS and writes the candidates of each, then the line "=", to $CANDIDATES_FILE.
fpath=($COMPLETIONS $fpath)
autoload -Uz compinit
compinit -D -u
# Those calls that only ask which words fit (-O, -A, -D) show nothing.
compadd() {
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
    local -a captured
    builtin compadd -A captured "$@"
    (($#captured)) && print -rl -- $IPREFIX${^captured} >> $CANDIDATES_FILE
  fi
  builtin compadd "$@"
}
complete_lines() {
  local line
  for line in ${(f)"$(<$LINES_FILE)"}; do
    BUFFER=$line CURSOR=$#line
    zle complete-word
    print -l '' = >> $CANDIDATES_FILE
  done
  exit
}
zle -N complete_lines
bindkey '^T' complete_lines
print ready
