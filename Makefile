# dexp3: bandits that learn from delayed feedback, inside PostgreSQL
#
#   make && make install         build and install for the pg_config in PATH
#   make installcheck            regression and isolation tests, against a running server
#   make prove_installcheck      TAP tests; they start servers of their own
#   make dist                    the zip archive for PGXN
#
# PG_CONFIG=/path/to/pg_config chooses another PostgreSQL, 15 to 19.

PG_CONFIG ?= pg_config

EXTENSION = dexp3
MODULE_big = dexp3

# Where this file is: not the current directory in a VPATH build.
here := $(dir $(firstword $(MAKEFILE_LIST)))

# The control file is the only place where the version is written.
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" $(here)$(EXTENSION).control)

OBJS = $(patsubst $(here)%.c,%.o,$(wildcard $(here)src/*.c $(here)src/*/*.c))
DATA = $(notdir $(wildcard $(here)$(EXTENSION)--*.sql))
PG_CPPFLAGS = -I$(here)src
# PostgreSQL's headers are not ours to warn about, whatever -W flags are given.
PG_CPPFLAGS += -isystem $(shell $(PG_CONFIG) --includedir-server)
# What a seed draws shall not depend on whether the compiler joins a multiplication and an
# addition, which it does for some processors only, and differently when it optimizes less.
PG_CFLAGS = -ffp-contract=off

# In this order: "reference" and "self_tuned_reference" define functions that the later tests use.
REGRESS = reference simulate state learn errors sampling regret managed managed_reference self_tuned_reference self_tuned self_tuned_managed window rehearse trigger arrival bulk privileges functions hostile ways_in promises arms subject upkeep expiry report advice delays chart page edges shop servers alter young
# "folded" likewise, for the others
ISOLATION := folded $(filter-out folded,$(patsubst $(here)specs/%.spec,%,$(wildcard $(here)specs/*.spec)))

SHLIB_LINK = -lm

EXTRA_CLEAN = $(EXTENSION)-*.zip

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# Before PostgreSQL 16 all symbols are exported: ours shall not be somebody else's.
ifeq ($(PORTNAME), linux)
SHLIB_LINK += -Wl,-Bsymbolic
endif

# A loop that shall be turned into vector instructions, as PostgreSQL does with some of its own
src/learner/exponential.o: CFLAGS += $(CFLAGS_VECTORIZE)

# Any header may matter to any object; a full build takes seconds.
# A VPATH build has to make the directories of the objects.
objdirs := $(addprefix $(CURDIR)/,$(sort $(patsubst %/,%,$(dir $(OBJS)))))
$(OBJS) $(OBJS:.o=.bc): $(wildcard $(here)src/*.h $(here)src/*/*.h) | $(objdirs)
$(objdirs):
	mkdir -p $@

# Not TAP_TESTS = 1: "make installcheck" must not need the Perl modules.
.PHONY: prove_installcheck
prove_installcheck:
	$(prove_installcheck)

# PGXN wants versions of three numbers, and the same one in META.json.
META.json: $(EXTENSION).control
	sed '/"meta-spec"/,/}/!s/"version": "[^"]*"/"version": "$(EXTVERSION).0"/' $@ >$@.tmp
	mv $@.tmp $@

.PHONY: dist
dist: META.json
	@git diff --quiet HEAD || { echo "dist: there are uncommitted changes" >&2; exit 1; }
	git archive --format=zip --prefix=$(EXTENSION)-$(EXTVERSION).0/ \
		--output=$(EXTENSION)-$(EXTVERSION).0.zip HEAD
