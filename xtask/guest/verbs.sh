# Real verbs: two soft-RoCE devices at the ends of one link, and persistent memory that both may flush.
load_nvdimm
case_ "a devdax namespace is made" devdax 0
case_ "two soft-RoCE devices are made" soft_roce
case_ "huge pages are set aside" sh -c "echo 4 >/proc/sys/vm/nr_hugepages && grep -q 4 /proc/sys/vm/nr_hugepages"
export STONECAST_RDMA_DEVICES=rxe0,rxe1 STONECAST_DAX=/dev/dax0.0

before=$(packets end0)
/programs/fabric-verbs-it --test-threads 1 --skip files:: --skip quiesced::quiet_comes_while
case_ "what one device sends to the other goes over the link" test "$(packets end0)" -gt $((before + 1000))

# The yardstick, and the link alone: READs of the tools that come with the drivers.
read_latency() {
    timeout 60 ib_read_lat -d rxe1 -x 1 -s "$1" -n 1000 -p 7777 >/dev/null 2>&1 &
    usleep 500000
    timeout 60 ib_read_lat -d rxe0 -x 1 -s "$1" -n 1000 -p 7777 10.9.0.2 2>/dev/null | tail -n 2 | head -n 1
}
case_ "READs of 64 bytes are measured over the link" read_latency 64
cat /tmp/case.output

# Lost packets. The devices send WRITE, READ and SEND again, and the contract still holds for them.
recovers() {
    case_ "with lost packets: $1" /programs/fabric-verbs-it --test-threads 1 --exact "contract::$1"
}
lose end0 5
lose end1 5
recovers a_write_of_any_size_and_alignment_changes_exactly_its_bytes
recovers a_read_of_any_size_and_alignment_returns_exactly_its_bytes
recovers a_read_sees_every_earlier_write_of_its_queue_pair
recovers a_write_is_visible_before_a_later_send_is_received
recovers sends_arrive_in_posting_order
recovers completions_come_in_posting_order
for end in end0 end1; do
    case_ "packets were lost that $end sent ($(dropped $end))" test "$(dropped $end)" -gt 0
done
lose_nothing end0
lose_nothing end1
# A link that is down loses the routes of its addresses, so this case is the last.
case_ "quiet comes while the link is down" env STONECAST_RDMA_LINK=end1 \
    /programs/fabric-verbs-it --test-threads 1 --exact \
    quiesced::quiet_comes_while_the_link_is_down_and_nothing_lands_after_the_link_is_up_again
