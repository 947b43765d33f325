#!/usr/bin/env python3
"""A newcomer's way on clean systems: what Dockerfile does, the Debian package, `make install`, the wheel, and every command that README
and the tutorial show, in roots that mmdebstrap makes (Debian 12, nothing but its base system).

    scripts/check_newcomer.py               all
    scripts/check_newcomer.py docker wheel  only these: docker (its lines, and the program that it starts), deb (the same, then installed), source, wheel

Needs root, mmdebstrap, Debian's archive, and PyPI for what builds the Python package. Without root, mmdebstrap or the archive it says so
and skips.
There is no Docker in it: each FROM is a clean root, each RUN a shell there. PyTorch, JAX and onnx come from build/venv where that is
of the same Python, so that the tutorial's blocks in Python run. The exit status is the verdict."""

import glob
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "newcomer")
NEWCOMER = "/newcomer"  # in the roots that are made here: the home folder of somebody who is not root
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SITE = "/opt/site-packages"  # where packages of build/venv appear in a root
PARTS = ("docker", "deb", "source", "wheel")


def skip(reason):
    print(f"newcomer: skipped: {reason}")
    sys.exit(0)


def remove(root):
    """Roots have mounts only while a command runs, and in that command's own view; --one-file-system all the same."""
    subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)


class Root:
    """A clean system in a folder. Commands there have a /proc, which loaders need to find libraries beside a program."""

    def __init__(self, name):
        self.path = os.path.join(BUILD, name)
        self.folder = "/"  # of the commands that follow
        self.packages = None
        remove(self.path)
        subprocess.run(["cp", "-a", os.path.join(BUILD, "base"), self.path], check=True)
        shutil.copy("/etc/resolv.conf", self.at("/etc/resolv.conf"))
        self.network = self.bring_network()

    def at(self, path):
        return os.path.join(self.path, path.lstrip("/"))

    def bring_network(self):
        """PyPI as this machine reaches it: its settings of pip, and whom it trusts."""
        settings = {}
        if os.path.isfile("/etc/pip.conf"):
            shutil.copy("/etc/pip.conf", self.at("/etc/pip.conf"))
        trusted = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt"
        if os.path.isfile(trusted):
            shutil.copy(trusted, self.at("/etc/trusted-here.crt"))
            settings = {"PIP_CERT": "/etc/trusted-here.crt", "SSL_CERT_FILE": "/etc/trusted-here.crt"}
        return settings

    def lend_packages(self):
        """Those of the tests, read-only, for the commands that follow."""
        here = os.path.realpath(os.path.join(ROOT, "build", "venv", "lib", f"python{sysconfig.get_python_version()}", "site-packages"))
        there = subprocess.run(["chroot", self.path, "python3", "-c", "import sysconfig; print(sysconfig.get_python_version())"],
                               capture_output=True, text=True, check=True).stdout.strip()
        if there != sysconfig.get_python_version() or not os.path.isdir(here):
            print("newcomer: without PyTorch, JAX and onnx: build/venv is not there (make check) or of another Python")
            return
        self.packages = here
        os.makedirs(self.at(SITE))

    def run(self, text, user="root", **environment):
        mount = ""
        if self.packages:
            there = shlex.quote(self.at(SITE))
            mount = f"mount --bind {shlex.quote(self.packages)} {there} && mount -o remount,bind,ro {there} && "
        home = "/root" if user == "root" else NEWCOMER
        settings = [f"{name}={value}" for name, value in {"PATH": PATH, "HOME": home, "LANG": "C.UTF-8", "USER": user,
                                                           "DEBIAN_FRONTEND": "noninteractive", **self.network, **environment}.items()]
        inside = f"cd {shlex.quote(self.folder if user == 'root' else home)} && {{ {text}\n}}"
        command = ["chroot", *(["--userspec", user] if user != "root" else []), self.path, "env", "-i", *settings, "/bin/sh", "-ec", inside]
        result = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={self.path}/proc", "sh", "-ec",
                                 mount + "exec " + shlex.join(command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if result.returncode != 0:
            print(result.stdout[-6000:])
            sys.exit(f"newcomer: failed with {result.returncode} in {os.path.basename(self.path)}: {text}")
        return result.stdout


def bring_checkout(root, folder):
    """What git knows of, and what it does not ignore."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True)
    os.makedirs(root.at(folder), exist_ok=True)
    tar = subprocess.Popen(["tar", "-C", ROOT, "--null", "--ignore-failed-read", "-T", "-", "-cf", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with subprocess.Popen(["tar", "-C", root.at(folder), "--no-same-owner", "-xf", "-"], stdin=tar.stdout) as unpack:
        tar.stdin.write(listed.stdout)
        tar.stdin.close()
    if tar.wait() != 0 or unpack.returncode != 0:
        sys.exit("newcomer: the checkout could not be copied")


def add_user(root):
    """Somebody who is not root, with the checkout's documents, tests and data in the home folder."""
    root.run(f"useradd --create-home --home-dir {NEWCOMER} newcomer")
    bring_checkout(root, f"{NEWCOMER}/stowage")
    root.run(f"chown -R newcomer {NEWCOMER}")


# ---- the ways to get it ----

def docker_lines():
    with open(os.path.join(ROOT, "Dockerfile"), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def copy_in_docker(words, root, stages):
    """COPY [--from=STAGE] FROM... TO"""
    *sources, to = [word for word in words if not word.startswith("--")]
    stage = [word.removeprefix("--from=") for word in words if word.startswith("--from=")]
    if not stage:
        assert sources == ["."], f"COPY {sources} is not known here"
        bring_checkout(root, to)
        return
    os.makedirs(root.at(to), exist_ok=True)
    for source in sources:
        found = glob.glob(glob.escape(stages[stage[0]].path) + source)  # the checkout's path may have any signs in it
        assert found, f"COPY {source}: there is no such file"
        for path in found:
            shutil.copy(path, root.at(to))


def follow_dockerfile():
    """The root that it makes last, and the command that it starts."""
    stages, root, entry = {}, None, None
    for word, rest in docker_lines():
        if word == "FROM":
            words = rest.split()
            assert words[0] == "debian:bookworm-slim", f"{words[0]} is not what is made here"
            root = stages[words[2] if len(words) > 2 else "image"] = Root(words[2] if len(words) > 2 else "image")
        elif word == "RUN":
            root.run(rest)
        elif word == "COPY":
            copy_in_docker(rest.split(), root, stages)
        elif word == "WORKDIR":
            root.folder = rest
            os.makedirs(root.at(rest), exist_ok=True)
        elif word == "ENTRYPOINT":
            entry = shlex.join(part.strip().strip('"') for part in rest.strip("[]").split(","))
        else:
            sys.exit(f"newcomer: {word} in Dockerfile is not known here")
    return stages, entry


def check_docker():
    stages, entry = follow_dockerfile()
    image = stages["image"]
    assert "h200x2" in image.run(f"{entry} machine")
    shutil.copy(os.path.join(ROOT, "data", "graphs", "rnnlm-2.json.gz"), image.at("/work"))
    image.run(f"{entry} optimize rnnlm-2.json.gz -m h200x2 --evaluations 50 -o plan.json && {entry} simulate rnnlm-2.json.gz -m h200x2 --plan plan.json")
    print("newcomer: the lines of Dockerfile, and what it starts: good")
    return stages


def check_deb(stages):
    """The image has the package installed, by apt with what it depends on."""
    root = stages["image"]
    root.folder = "/"
    assert "install ok installed" in root.run("dpkg -s stowage")
    root.run("! command -v cc && ! command -v python3")  # a clean system
    root.run("apt-get update -q && apt-get install -y -q --no-install-recommends man-db bash-completion python3 python3-venv")
    root.lend_packages()
    add_user(root)
    library = root.run("echo /usr/lib/*/libstowage.so").strip()
    venv = "python3 -m venv ~/venv && . ~/venv/bin/activate && cd ~/stowage"
    lent = f" && (cd ~/venv/lib/python3.*/site-packages && echo {SITE} >lent.pth)" if root.packages else ""
    root.run("cd ~/stowage && tests/package/newcomer.sh stowage", user="newcomer")
    root.run(f"{venv} && STOWAGE_LIBRARY={library} pip install -q --disable-pip-version-check ./python{lent}", user="newcomer")
    print(root.run(f"{venv} && STOWAGE_INSTALLED=exact python3 tests/docs/test_commands.py", user="newcomer"), end="")
    root.folder = "/"
    root.run("apt-get purge -y -q stowage && ! ls -d /usr/lib/*/libstowage* /usr/share/doc/stowage /usr/bin/stowage /usr/share/man/man1/stowage*")
    print("newcomer: the Debian package: good")


def check_source():
    """`make install` into a home folder, by somebody who is not root; then without the folder that it was built in."""
    root = Root("source")
    root.run("apt-get update -q && apt-get install -y -q --no-install-recommends make man-db bash-completion")
    add_user(root)
    root.run(f"make -C {NEWCOMER}/stowage setup")
    root.run("cd ~/stowage && make install PREFIX=~/.local && rm -rf build", user="newcomer")
    installed = "export PATH=$HOME/.local/bin:$PATH PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig"
    root.run(f"{installed} && cd ~/stowage && tests/package/newcomer.sh stowage", user="newcomer")
    page = root.run("awk '/^cc /' ~/stowage/docs/packaging.md", user="newcomer")
    compilers = [line.replace("main.c", "-std=c11 ~/stowage/examples/optimize.c") for line in page.splitlines()]
    assert len(compilers) == 2, f"docs/packaging.md has {len(compilers)} ways to build with pkg-config"
    for kind, folder, compiler in zip(("shared", "static"), ("$HOME/.local/lib", ""), compilers):
        root.run(f"{installed} LD_LIBRARY_PATH={folder} && {compiler} -o {kind} && ldd {kind} >{kind}.needs && "
                 f"./{kind} ~/stowage/data/graphs/rnnlm-2.json.gz h200x2 {kind}.json trace.json && "
                 f"stowage simulate ~/stowage/data/graphs/rnnlm-2.json.gz -m h200x2 --plan {kind}.json", user="newcomer")
    root.run("grep -q .local/lib/libstowage shared.needs && ! grep -q libstowage static.needs", user="newcomer")
    print("newcomer: make install: good")


def check_wheel():
    made = subprocess.run([os.path.join(ROOT, "scripts", "make_wheel.sh")], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        print(made.stdout + made.stderr)
        sys.exit("newcomer: scripts/make_wheel.sh failed")
    wheel = os.path.join(ROOT, made.stdout.split()[-1])
    root = Root("wheel")
    root.run("apt-get update -q && apt-get install -y -q --no-install-recommends python3 python3-venv")
    root.run("! command -v cc && ! ls /usr/lib/*/libmetis*")
    root.lend_packages()
    add_user(root)
    shutil.copy(wheel, root.at(NEWCOMER))
    venv = "python3 -m venv ~/venv && . ~/venv/bin/activate && cd ~/stowage"
    lent = f" && (cd ~/venv/lib/python3.*/site-packages && echo {SITE} >lent.pth)" if root.packages else ""
    root.run(f"{venv} && pip install -q --disable-pip-version-check --no-index ~/*.whl{lent}", user="newcomer")
    root.run(f"{venv} && tests/package/newcomer.sh stowage-planner && tests/package/newcomer.sh 'python -m stowage'", user="newcomer")
    root.run("ln -s stowage-planner ~/venv/bin/stowage", user="newcomer")  # the name that the documents use (docs/install.md)
    print(root.run(f"{venv} && STOWAGE_INSTALLED=any python3 tests/docs/test_commands.py", user="newcomer"), end="")
    print("newcomer: the wheel: good")


def main():
    wanted = sys.argv[1:] or list(PARTS)
    if not set(wanted) <= set(PARTS):
        sys.exit(f"newcomer: there are {', '.join(PARTS)}")
    if os.geteuid() != 0:
        skip("only root can make a system in a folder")
    for tool in ("mmdebstrap", "unshare", "chroot"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed (Debian: mmdebstrap, util-linux, coreutils)")
    remove(BUILD)
    os.makedirs(BUILD)
    if subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", os.path.join(BUILD, "base")], check=False).returncode != 0:
        skip("Debian's archive cannot be reached, or no devices can be made here")
    if {"docker", "deb"} & set(wanted):
        stages = check_docker()
        if "deb" in wanted:
            check_deb(stages)
    if "source" in wanted:
        check_source()
    if "wheel" in wanted:
        check_wheel()
    remove(BUILD)


if __name__ == "__main__":
    main()
