SUMMARY = "Measures whether a Linux system is on time"
DESCRIPTION = "Measures how late tasks start on every CPU, under which load, and whether a deadline holds. One static binary; a run is a folder."
HOMEPAGE = "https://code.example/tardy"
BUGTRACKER = "https://code.example/tardy/issues"
SECTION = "devel"
LICENSE = "Apache-2.0 | MIT"
LIC_FILES_CHKSUM = "file://LICENSE-MIT;md5=3f96d6a472b23c5551747d565419c81a"

SRC_URI = "git://code.example/tardy.git;protocol=https;branch=main;destsuffix=${BPN}-${PV}"
# The commit of the version that is built.
SRCREV = "0000000000000000000000000000000000000000"
S = "${UNPACKDIR}/${BPN}-${PV}"

inherit cargo cargo-update-recipe-crates

# Crates of Cargo.lock, made by `bitbake -c update_crates tardy`.
require ${BPN}-crates.inc

CARGO_BUILD_FLAGS += "--package tardy"

do_install() {
    install -Dm 0755 ${B}/target/${CARGO_TARGET_SUBDIR}/tardy ${D}${bindir}/tardy
}
