/*
 * tables.h
 *	  The tables in schema dexp3 as C sees them.
 *
 * The column numbers mirror the install script.
 */
#ifndef DEXP3_TABLES_H
#define DEXP3_TABLES_H

#include "postgres.h"

#include "storage/lockdefs.h"
#include "utils/relcache.h"

/* dexp3.bandit: what is fixed about a bandit */
enum
{
	Anum_bandit_bandit_id = 1,
	Anum_bandit_name,
	Anum_bandit_arms,
	Anum_bandit_algorithm,
	Anum_bandit_skipping,
	Anum_bandit_patience,
	Anum_bandit_max_delay,
	Anum_bandit_step_scale,
	Anum_bandit_epoch,
	Anum_bandit_created_at,
	Anum_bandit_owner,
	Anum_bandit_grantees,
	Anum_bandit_feedback_window,
	Anum_bandit_missing_loss,
	Anum_bandit_retention,
	Anum_bandit_sticky,
	Anum_bandit_loss_range,
	Anum_bandit_clamp_losses,
	Anum_bandit_retired,
	Anum_bandit_head_start,
	Anum_bandit_optimism,
	Anum_bandit_half_life,
	Anum_bandit_cost_offset,
	Anum_bandit_arms_changed_at,
	Anum_bandit_goal,
	Anum_bandit_shared,
	Natts_bandit = Anum_bandit_shared
};

/* dexp3.decision: one row per choose */
enum
{
	Anum_decision_decision_id = 1,
	Anum_decision_bandit_id,
	Anum_decision_epoch,
	Anum_decision_round,
	Anum_decision_outstanding,
	Anum_decision_probability,
	Anum_decision_gamma,
	Anum_decision_decided_at,
	Anum_decision_xact,
	Anum_decision_arm,
	Anum_decision_delay,
	Anum_decision_z,
	Anum_decision_m,
	Anum_decision_subject,
	Anum_decision_mass,
	Natts_decision = Anum_decision_mass
};

/* dexp3.feedback: one row per settled decision */
enum
{
	Anum_feedback_decision_id = 1,
	Anum_feedback_bandit_id,
	Anum_feedback_epoch,
	Anum_feedback_round,
	Anum_feedback_delay,
	Anum_feedback_received_at,
	Anum_feedback_xact,
	Anum_feedback_arm,
	Anum_feedback_loss,
	Anum_feedback_estimate,
	Anum_feedback_probability,
	Anum_feedback_expected,
	Anum_feedback_lbck,
	Anum_feedback_expired,
	Anum_feedback_baseline,
	Anum_feedback_mass,
	Anum_feedback_decided_at,
	Natts_feedback = Anum_feedback_decided_at
};

/* dexp3.expiry: one row for many decisions that have expired */
enum
{
	Anum_expiry_first_decision = 1,
	Anum_expiry_bandit_id,
	Anum_expiry_epoch,
	Anum_expiry_last_decision,
	Anum_expiry_round,
	Anum_expiry_received_at,
	Anum_expiry_xact,
	Anum_expiry_loss,
	Anum_expiry_baseline,
	Anum_expiry_decisions,
	Natts_expiry = Anum_expiry_decisions
};

/* dexp3.trimmed: the sums of rows that were removed from the other three */
enum
{
	Anum_trimmed_first_decision = 1,
	Anum_trimmed_bandit_id,
	Anum_trimmed_epoch,
	Anum_trimmed_xact,
	Anum_trimmed_newest_xact,
	Anum_trimmed_decisions,
	Anum_trimmed_skipped,
	Anum_trimmed_expired,
	Anum_trimmed_rounds,
	Anum_trimmed_skipped_rounds,
	Anum_trimmed_expired_rounds,
	Anum_trimmed_cumulative_delay,
	Anum_trimmed_longest_delay,
	Anum_trimmed_last_decision,
	Anum_trimmed_last_feedback,
	Anum_trimmed_lbck,
	Anum_trimmed_sums,
	Anum_trimmed_half_lives,
	Anum_trimmed_settled,
	Anum_trimmed_total_loss,
	Anum_trimmed_cost,
	Anum_trimmed_restricted_rounds,
	Natts_trimmed = Anum_trimmed_restricted_rounds
};

/* dexp3.checkpoint: folded states, for a quick start */
enum
{
	Anum_checkpoint_bandit_id = 1,
	Anum_checkpoint_epoch,
	Anum_checkpoint_events,
	Anum_checkpoint_written_at,
	Anum_checkpoint_state,
	Natts_checkpoint = Anum_checkpoint_state
};

/* dexp3.warning: feedback that was lost */
enum
{
	Anum_warning_bandit_id = 1,
	Anum_warning_table_owner,
	Anum_warning_number,
	Anum_warning_warned_at,
	Anum_warning_role,
	Anum_warning_table_name,
	Anum_warning_trigger_name,
	Anum_warning_decision_id,
	Anum_warning_sqlstate,
	Anum_warning_message,
	Natts_warning = Anum_warning_message
};

/* dexp3.component: what each of several servers has published of its sums */
enum
{
	Anum_component_bandit = 1,
	Anum_component_node,
	Anum_component_epoch,
	Anum_component_version,
	Anum_component_written_at,
	Anum_component_forgotten,
	Anum_component_arms,
	Anum_component_playable,
	Anum_component_algorithm,
	Anum_component_loss_range,
	Anum_component_optimism,
	Anum_component_half_life,
	Anum_component_rounds,
	Anum_component_settled,
	Anum_component_expired,
	Anum_component_last_decision,
	Anum_component_last_feedback,
	Anum_component_half_lives,
	Anum_component_weight,
	Anum_component_total_loss,
	Anum_component_cost,
	Anum_component_z,
	Anum_component_sums,
	Natts_component = Anum_component_sums
};

/* Their object identifiers; a table is the partition that has the rows. */
typedef struct Tables
{
	Oid			bandit;
	Oid			bandit_pkey;
	Oid			bandit_name_key;
	Oid			bandit_id_seq;
	Oid			decision;
	Oid			decision_pkey;
	Oid			decision_log_idx;
	Oid			decision_subject_idx;
	Oid			decision_id_seq;
	Oid			feedback;
	Oid			feedback_pkey;
	Oid			feedback_log_idx;
	Oid			expiry;
	Oid			expiry_pkey;
	Oid			expiry_log_idx;
	Oid			expiry_last_idx;
	Oid			trimmed;
	Oid			trimmed_log_idx;
	Oid			checkpoint;
	Oid			checkpoint_idx;
	Oid			warning;
	Oid			warning_idx;
	Oid			component;
	Oid			component_idx;
} Tables;

extern const Tables *tables(void);
extern const Tables *tables_if_there(void);
extern Oid	tables_role_type(void);
extern uint64 tables_generation(void);
extern void tables_init(void);
extern Relation table_open_checked(Oid relid, LOCKMODE lockmode);
extern void table_check(Relation rel);

#endif							/* DEXP3_TABLES_H */
