#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section checkpoint_section() {
  return {
      "Checkpoints",
      {
          {works,
           "a layout of our own; refused where the folder has another run's checkpoints",
           "--save"},
          {works,
           "our checkpoints; where there are none, a new run only with the same folder as --save",
           "--load"},
          {works, "the last step is saved, too", "--save-interval --persistent-save-interval"},
          {works, "", "--finetune --no-load-optim"},
          {works,
           "torch_dist is taken for our own format, with a warning; others are refused",
           "--ckpt-format"},
          {accepted,
           "a checkpoint is always written beside the training",
           "--async-save --async-strategy X --use-persistent-ckpt-worker --async-ckpt-cpu-priority "
           "X --async-ckpt-io-priority X --async-ckpt-use-cpu-shm"},
          {accepted, random_function, "--no-save-rng --no-load-rng"},
          {accepted,
           "every checkpoint can be loaded in every layout",
           "--dist-ckpt-optim-fully-reshardable --distrib-optim-fully-reshardable-mem-efficient "
           "--use-mp-args-from-checkpoint-args"},
          {accepted,
           "who writes and reads which file decides no byte of the state",
           "--ckpt-fully-parallel-save --no-ckpt-fully-parallel-save --ckpt-fully-parallel-load "
           "--ckpt-fully-parallel-load-exchange-algo X --ckpt-fully-parallel-load-per-rank-objects "
           "--ckpt-fully-parallel-save-process-group X --ckpt-fully-parallel-load-process-group X "
           "--ckpt-assume-constant-structure --dist-ckpt-workers X "
           "--ckpt-drop-redundant-extra-state --ckpt-pg-tensors-cache-path X "
           "--ckpt-pg-tensors-cache-create"},
          {accepted,
           "every file has a hash, and is trusted only as far as that reaches",
           "--verify-integrity"},
          {accepted,
           "there is one format, and it is recognised",
           "--auto-detect-ckpt-format --use-dist-ckpt"},
          {refused,
           "name the checkpoint: --load DIR/iter_0000100",
           "--ckpt-step --override-ckpt-iteration"},
          {refused,
           "use --load DIR --finetune",
           "--pretrained-checkpoint --load-main-params-from-ckpt"},
          {refused, "use --keep-last N", "--save-retain-interval"},
          {refused,
           "a missing checkpoint is an error already, unless --save names the same folder; leave "
           "it out",
           "--exit-on-missing-checkpoint"},
          {refused,
           "give the flags of the first run again; what differs is said",
           "--use-checkpoint-args"},
          {refused,
           "a checkpoint that cannot resume exactly is not written; leave it out",
           "--no-save-optim"},
          {refused,
           "the tokenizer is always kept beside the checkpoints; leave it out",
           "--no-save-tokenizer-assets --disable-save-tokenizer-assets"},
          {accepted,
           "the tokenizer is the command line's",
           "--no-use-tokenizer-model-from-checkpoint-args "
           "--disable-use-tokenizer-model-from-checkpoint-args"},
          {refused,
           "there is one kind of checkpoint; use --save-interval",
           "--non-persistent-save-interval --non-persistent-ckpt-type "
           "--non-persistent-global-ckpt-dir --non-persistent-local-ckpt-dir "
           "--non-persistent-local-ckpt-algo --replication --replication-jump "
           "--replication-factor"},
          {refused,
           "only checkpoints are written; leave it out",
           "--save-params-interval --save-activations-interval --save-wgrads-interval "
           "--save-dgrads-interval"},
          {refused,
           "checkpoints of Megatron-LM are not read; come by a Hugging Face folder, with --load-hf "
           "or "
           "`troupe checkpoint import`",
           "--ckpt-convert-format --ckpt-convert-save "
           "--ckpt-convert-update-legacy-dist-opt-format"},
          {refused,
           torch_files,
           "--dist-ckpt-strictness --dist-ckpt-format --dist-ckpt-save-pre-mcore-014 "
           "--no-ckpt-load-validate-sharding-integrity "
           "--disable-ckpt-load-validate-sharding-integrity --no-strict-fsdp-dtensor-load "
           "--disable-strict-fsdp-dtensor-load"},
      }};
}

}  // namespace troupe::command::megatron
