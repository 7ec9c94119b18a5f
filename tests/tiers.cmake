# Tiers of tests: every change must pass the first; the second runs before an issue is closed.
#
# Each test has two labels: its room and its tier.
#   change   tests/run.sh and .ci/run run it.
#   full     tests/run.sh --all and .ci/full run it, with all of `change`.
#
# Rule: `change` has one test for each promise, however long it takes; a variation goes to `full`. A test may also go to
# `full` if another one finds the same planted faults (docs/mutants.md).

# troupe_full(<reason> <test>...): these tests are in the tier `full`. A name may end with *.
set(TROUPE_FULL)
function(troupe_full reason)
  foreach(name ${ARGN})
    string(REPLACE "*" ".*" name ${name})
    list(APPEND TROUPE_FULL "^${name}$")
  endforeach()
  set(TROUPE_FULL ${TROUPE_FULL} PARENT_SCOPE)
endfunction()

troupe_full("the same death of another role or at another moment: processes_killed, processes_all_killed, \
processes_front_killed, processes_agent_killed, processes_supervisor_killed and processes_cold_start are in `change`"
  command/processes_stopped command/processes_front_stopped command/processes_supervisor_and_*
  command/processes_supervisor_with_others_killed command/processes_supervisor_lost
  command/processes_supervisor_crashed command/processes_supervisor_killed_*
  command/processes_supervisor_stopped command/processes_signalled
  command/processes_experts_killed command/processes_cold_experts
  command/processes_all_alone command/processes_temporary* command/processes_removed_folder
  command/processes_save_vanishes command/processes_without_recovery command/processes_local_refused
  command/processes_cold_damaged command/processes_cold_refused command/processes_keeper_planted
  command/processes_shard_writer_planted command/processes_wrong_moments command/processes_shards
  command/processes_full_disk command/two_deaths_during_recovery command/lost_supervisor_with_a_node
  command/lost_supervisor_twice command/lost_supervisor_typed_again command/lost_supervisor_wakes
  command/lost_supervisor_partition command/lost_supervisor_nothing_decides)

troupe_full("the same run over processes with another layout, transport, type or way to end: processes_pipelines and \
processes_checkpoints are in `change`"
  command/processes_sharded command/processes_tensors command/processes_formats command/processes_mapped
  command/processes_memory command/processes_refused_there command/processes_shown_as_one
  command/processes_asked_* command/processes_any_bytes command/own_families_tensors command/equality_*)

troupe_full("the same over several hosts: hosts_same, hosts_killed and hosts_strangers are in `change`"
  command/hosts_agent_killed command/hosts_node_killed command/hosts_spare command/hosts_supervisor_*
  command/hosts_once command/hosts_data_missing command/hosts_relative command/hosts_refused command/hosts_insecure
  command/hosts_namespaces command/hosts_one_way command/hosts_cut_off command/placement_*_host*
  command/launch_lost_host command/launch_rank_0_killed command/launch_uneven command/launch_host_file_refused
  examples/11_two_hosts)

troupe_full("the same by another launcher, or a wait for a launcher: slurm_same, slurm_requeue, mpi_same, mpi_signal, \
ssh_same and ssh_refused are in `change`"
  command/slurm_time_limit command/slurm_uneven command/slurm_lost_*host command/mpi_one_host command/mpi_exit_code command/ssh_lost_host)

troupe_full("campaigns of faults from outside: scenario/deaths and links_broken are in `change`"
  command/chaos_* command/links_silent command/links_control* command/disks_silent command/disks_slow
  command/disks_ledger_synced command/disks_read_only_at_first command/stragglers_link command/stragglers_input
  scenario/wrong_bits)

troupe_full("forms of BERT and T5 with several options: scenario/matrix has the smallest of each" scenario/matrix_forms)

troupe_full("many forged files, one start of the program for each: fuzz/* sees the parsers in `change`"
  command/forged_hub command/forged_manifest command/forged_limits)

troupe_full("jobs on emulated devices: gpu_same_bits, gpu_refusals, kernels_cuda, collective_cuda and emulator are in \
`change`; device_cuda is in `full` (tests/device.cmake)"
  command/gpu_choices command/gpu_lost_choices command/gpu_older_gradients command/gpu_memory*
  command/gpu_failing_device command/gpu_several_devices command/gpu_refused_choices command/gpu_saving
  command/gpu_occupied command/gpu_missing_attention command/gpu_preferred_attention command/gpu_scalar_attention
  command/gpu_rounding command/gpu_processes_saved command/gpu_processes_verified
  command/gpu_processes_planted command/gpu_processes_devices
  kernels/cuda_coarse)

troupe_full("scripts for a session on a real GPU" bench/gpu_*)
troupe_full("sums in a script that measures experts, with fake programs" bench/experts)

troupe_full("products and attention by instruction sets below the processor's own"
  kernels/products_by_* kernels/attention_without_tiles kernels/teams_without_tiles runtime/golden_without_tiles)

troupe_full("compiles stories against the installed library" package/install)

troupe_full("trains models for minutes: `change` has the bits of experts in runtime/* and scenario/*"
  examples/14_experts examples/15_fine_tuning examples/16_reversing)

# troupe_test_properties(<test> <room> <tier or ""> <timeout in seconds>): labels and limits of one test. An empty tier is
# looked up in the lists above.
function(troupe_test_properties name room tier timeout)
  if(NOT tier)
    set(tier change)
    foreach(pattern ${TROUPE_FULL})
      if(name MATCHES "${pattern}")
        set(tier full)
        break()
      endif()
    endforeach()
  endif()
  set(halves ${TROUPE_CORE})
  if(name IN_LIST TROUPE_WAITING)
    set(halves 1)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS "${room};${tier}" PROCESSORS ${halves}
                       ${TROUPE_TEST_PROPERTIES})
endfunction()

# Builds with sanitizers leave these out: each takes minutes there, and enters code that other sanitized tests enter.
set(TROUPE_UNSANITIZED
  command/cli_layout command/console_signals command/datasets_components command/hosts_cut_off
  command/hosts_one_way command/hosts_refused command/inputs_messages command/inputs_own_inputs
  command/robust_killed_preprocess command/robust_killed_conversations command/schedule_refusals command/schedule_script
  command/simulate_seeds command/train_schedule_nonfinite
  command/train_schedule_refused command/train_schedule_resumed command/usage_configuration
  command/use_export command/watch_evaluation kernels/attention_without_tiles scenario/matrix
  command/cli_arrangements command/cli_impossible command/cli_schedule command/gpu_lost_choices
  command/gpu_memory command/gpu_missing_attention command/gpu_occupied command/gpu_preferred_attention command/gpu_saving
  command/gpu_several_devices command/robust_large_files command/schedule_costs
  command/schedule_memory_limit command/schedule_plans command/usage_resumed command/watch_plot
  command/console_terminal command/console_forms
  command/checkpoints_finetune command/checkpoints_resume command/checkpoints_upcycle command/checkpoints_vocabulary
  command/cli_model
  command/cli_terms command/gpu_older_gradients command/gpu_refused_choices command/gpu_rounding
  command/gpu_same_bits command/gpu_scalar_attention command/hosts_same command/inputs_pages
  command/object_same command/object_signal command/processes_pipelines command/processes_sharded
  command/processes_wrong_bits command/processes_wrong_moments command/profile command/run_default
  command/schedule_draw_executed command/schedule_draw_picture command/usage_examples
  command/usage_layouts_page command/usage_memory command/watch_nonfinite)

# ctest shares out halves of cores, and tests/run.sh gives it one half more than there are. A test that computes takes two
# halves. These tests mostly wait (for hosts that fall silent, for timeouts) and take one, so that one of them runs beside
# tests that compute.
set(TROUPE_CORE 2)
set(TROUPE_WAITING
  command/console_signals command/disks_silent command/hosts_cut_off command/hosts_node_killed command/hosts_one_way
  command/hosts_supervisor_in_vain command/lost_supervisor_nothing_decides command/lost_supervisor_twice
  command/lost_supervisor_gone command/lost_supervisor_typed_again command/lost_supervisor_wakes command/disks_read_only
  command/object_signal command/processes_all_alone command/processes_front_killed command/processes_full_disk
  command/processes_shard_writer_planted command/processes_temporary_without_successor
  command/robust_refused_threads command/slurm_lost_host command/slurm_lost_first_host command/slurm_time_limit command/ssh_lost_host
  command/ssh_refused examples/11_two_hosts)
