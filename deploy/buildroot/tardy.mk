################################################################################
#
# tardy
#
################################################################################

TARDY_VERSION = 0.1.0
TARDY_SITE = https://code.example/tardy
TARDY_SITE_METHOD = git
TARDY_LICENSE = Apache-2.0 or MIT
TARDY_LICENSE_FILES = LICENSE-APACHE LICENSE-MIT
TARDY_CARGO_BUILD_OPTS = --package tardy
TARDY_CARGO_INSTALL_OPTS = --path crates/tardy

$(eval $(cargo-package))
