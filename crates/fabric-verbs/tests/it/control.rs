//! The control plane between two threads of this process, and against peers that are none of ours.
