# The .zshrc of an interactive zsh on a terminal of its own: completes every line of the file $LINES_FILE with the script in its folder
# and writes the candidates of each, then the line "=", to $CANDIDATES_FILE.
fpath=($ZDOTDIR $fpath)
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
zle-line-init() { # before the first key is read
  local line
  for line in ${(f)"$(<$LINES_FILE)"}; do
    BUFFER=$line CURSOR=$#line
    zle complete-word
    print -l '' = >> $CANDIDATES_FILE
  done
  exit
}
zle -N zle-line-init
