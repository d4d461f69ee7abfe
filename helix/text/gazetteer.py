"""Names that most texts share, written from general knowledge: given names, places, organisations, software.

Entries are lower case. Names of one word are set apart by white space, names of several by commas. What is also a
common English word stands in the lists of capitalised use only.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> frozenset[str]:
    return frozenset(" ".join(phrase.split()) for phrase in text.split(","))


GIVEN: Final = _words("""
aaliyah aarav aaron abbas abby abdul abdullah abel abena abhay abhijit abhinav abhishek abigail abiodun abraham ada
adaeze adam adebayo adel adele adelheid adeline aditi aditya adrian adriana adriano adrien adrienne adunni afonso
afshin afua agathe agnes agnieszka agnė agostinho ahlam ahmad ahmed aidan aiden aigars aiko aileen ailsa aimee aina
aine ainhoa aino aisha aishwarya aisling aistė aitor aivar ajay akane akash akemi akihiko akihiro akiko akinyi akira
akosua akua alaa alan alana alaric alastair alba albert alberto aldo alec alejandra alejandro alejo aleksandr aleksi
alena alessandra alessandro alessia alex alexander alexandra alexei alexis alfie alfred algernon algirdas ali alice
alicia alina alireza alisa alison alistair alix alkis allan allen allison alma almudena alois alok alondra alun alvaro
alvise alyssa amadeo amadi amadou amal amanda amandine amara ambika ambrose amelia amelie amin amina aminata amir amira
amit amita amjad amol amparo amrita amy amélie amílcar ana anacleto anahera anahí anand anant anas anastasia anastasios
anastasis anatoly anaya anaïs anders andoni andre andrea andreas andrei andrej andrew andris andrzej andy aneta angela
angeles angelica angelina angelo angharad angus anh anika anil anirudh anita anja anjali anjana ankit ankita ankur ann
anna annabel anne annegret anneli anneliese annette annie annika anouk ansel antanas anthony antigone antoine anton
antonella antonia antonio antonis ants antti anushka anya aoife aparecida aparna apostolos araceli araminta arantxa
arash archana archibald archie ardeshir arezoo ariana ariel ariella aristea arjun arkady arlo armanda armando armelle
armin arnaud arnav arnold aroha arpita artem arthur arti artur arturo artyom arun arundhati arvid arvind arūnas asami
asante asbjorn asger asha asher ashish ashley ashok ashwin asif assaf astri astrid asuka atefeh athanasios atieno
atsuko atsushi audrey audrius augusto auma aurelio aurora aurélie aurélien austin ava avery avi avinash avital avni
axel axelle ayaan ayaka ayako ayame ayana ayelet ayesha ayman ayo ayodele ayse ayumi ayush ayşe azadeh azar aziz
azubuike babajide babak babatunde bahar bahram balaji balthasar bamidele bao baptiste barbara barnaby barry bart
bartholomew bartosz basma bassam bastian bastien beatrice beatriz becca becky begoña bela belen ben bence benedetta
benedick benedict benedikt benedito benito benjamin benoît bernadette bernard bernd bernhard bernie bert bertha
bertrand beth bethan bethany betty beverly bhavana bhavesh biagio bianca bijan bilal billie billy binh birger birgit
birgitta birte bisi bjorn björn blake blanca blandine blathnaid boaz bodil bogdan bogdana bohai bolaji bolin bonnie
boris borja bozena bożena brad bradley bram brandon branislav branko branwen brenda brendan brett brian brianna bridget
brigitte britt britta brittany bronagh bronislav bronisław bronwen brooke bruce bruno bryan bryce bryn burkhard bärbel
béla cadoc caetano cahal caio caitlin caleb calliope callum calvin cameron camila camille camillo candace caoimhe
capucine cara carina carl carla carlo carlos carlotta carmela carmen carmine carol carole carolina caroline carolyn
carrie carson carsten casey cassandra cassie catalina catarina catherine cathy catriona cecil cecilia cedric celeste
celia celine celso ceri cesar chaim chaitanya chana chandan chandra chantal chara charalampos charlene charles charlie
charlotte chau chelsea chen cheng cheryl chetan chiamaka chiara chidi chidinma chieko chihiro chika chimamanda chinedu
chinonso chinua chioma chloe chloé chris christa christian christiane christina christine christl christof christoph
christophe christopher christos chuanli chukwudi ciara ciaran cindy cirillo citlali claire clara clarence clarice
clarissa claudia claudine claudio clemens clement clementine clifford clint clive clodagh clotilde clémence clément
cody coinneach colette colin colleen colm colombe conall concepción connie connor conor constance cora coralie cordelia
corentin corey corinne cormac cornelia cornelius cosimo courtney craig cressida crispin cristian cristiano cristina
csaba cuauhtémoc cuong curtis cynthia cyprian cyril cyrus czeslaw cécile célia céline da-eun daan dace dae-jung dafna
dagmar dagny dagobert daichi daisuke daithi dalia dalit damian damiano damien damon dan dana danica daniel daniela
daniele danielle danilo danny danuta daphne dario darius dariush dariusz darragh darren darshan darya daryl dashiell
dave david davide dawid dean debbie deborah declan deepa deepak deirdre dejan delfina delia delphine delyth denise
dennis derek dermot desdemona desiree desmond desta detlef detlev devika devin devon dexter dhruv diana diane diarmuid
didier diederik diego dieter dietmar dietrich diksha dimitar dimitra dimitri dimitrij dimitris dinesh dino dionysis
dipak dirk divya divyansh dmitri dmitry dobromir dolores domenico dominic dominik dominika dominique donal donald
donatella donna dora doreen doris dorothea dorothy doug douglas dov dragan drago duarte duc duncan dusan dustin duška
dwayne dwight dylan débora dóra eamon ebele ebenezer eberhard ebony ebrahim eckhard eddie edeltraud edgar edgars edith
edmond edmundo edoardo eduardo edward edwin edyta eero eeva efrain efrat efua eglė ehsan ehud eiji eiko eileen eilidh
eimear eino eirini eirlys eitan ekaterina ekow elad elaine eleanor elena eleni eleonora elfriede eli elias eliezer
elijah elin elina elinor elio elisa elisabeth elise elisenda eliza elizabeth elke ella ellen ellie elliot elliott elmar
elodie elpida elsa elsie elvira elżbieta emanuele emeka emeline emil emile emilia emiliano emilie emilio emily emine
emma emmanuel emmanuella emre emyr encarnación endre enrico enrique enzo eoghan eoin ephraim erasmus ercole erhard eric
erica erich erik erika erin erlend ernest ernesto ernst erwin esi eskil esko esme esmee esmeralda espen esteban estelle
esther eszter ethan etsuko ettore eugen eugene eugénie eulalia eun-ji eunice eva evan evangelia evangeline evangelos
evaristo evelyn evert evija ewa ewan ewelina eyal eyvind ezra fabian fabien fabienne fabio fabiola fabrice facundo fadi
fadime faisal faiza fanta farah farhan farid farida farrokh fatemeh fatima fatma fatou fatoumata faustine fausto
federica federico fedor felicia felicity felipe felix femke ferdinand ferenc fereshteh fergus fermín fernanda fernando
fernão ffion filip filippo filiz finbar finlay finn finnur finola fiona fionn fionnuala fiorella fiorenza firas flavia
flavie flavio fleur florencia florent florian flávia folake folasade fotini fotis franca frances francesca francesco
francine francis francisco franciszek franco francois franz françois frauke fred freddie frederic frederick frederik
freek freya frida friedhelm friedrich fritz frode fulvio fumiko fumio funmi gabi gabriel gabriela gabriele gabriella
gabrielle gaetano gali galina galit gareth garrett gary gaspard gastão gaurav gautier gavin gayatri gaël gaëlle gaëtan
gediminas geneviève gennady gennaro geoff geoffrey georg george georges georgina georgios geraint gerald geraldine
gerard gerardo gerd gerda gergely gerhard gerlinde germaine gerrit gerry gertrude ghada ghislain giacinto giacomo
giampaolo gianluca gianna gianni gideon giedrė gigi gijs gilad gilbert gilda giles gilles gillian gina ginette gino
gintaras gioia giordano giorgio giorgos giovanna giovanni girish girolamo giselle gisèle gita giulia giuliana giuliano
giulio giuseppe gizem gladys glenda glenn glenys gloria golnaz gonzalo gonçalo gopal goran gordon goro govind graciela
grainne grazia graça grażyna greg gregor gregory greta gretchen grigory gry grzegorz gráinne grégoire guang gugu guido
guilherme guillaume guillermo gunda gunhild gunn gunnar gunnhild gunther guntis gunvor guowei gustav gustavo gwen
gwenaël gwenaëlle gwendolen gwenllian gwilym gwyneth gyula gábor gökhan götz gülay gülşen günter günther haakon habib
hachiro hadar hadas hadi hae-won hafsa haiyan hakan hakim haley halil halina halldor halvard hamed hamid hamish hamza
hana hani hanna hannah hannelore hannes hans hans-peter hao haoran harald hardik hari harold harper harri harriet
harrison harry harsha hartmut haruka haruki haruna haruto harvey hasan hassan hatem hatice hayato hazel heather hector
hedwig hege heidi heike heikki heiko heinrich heinz heitor helen helena helene helga helge hella helmut helmuth heloísa
hemant hemi hendrik hennie henning henri henriette henrik henrique henry henryk herbert herman hermann herminia hernan
herta hervé hideaki hideki hideo hideto hikari hikaru hila hilary hilda hilde hildegard himari hinata hinewai hiro
hirokazu hiroki hiroko hiromi hiroshi hisako hisashi hitesh hitomi hitoshi hoang hoda holger hong hongwei honoka
honorine horst hortense hossein howard hua hubert hubertus huda hugh hugo huguette hui hung huong hussein huw hye-jin
hyun-woo héloïse hélène hülya iain ian iara iben ibrahim ibrahima ichiro ida idan idit ieuan ifeanyi ifeoma ignacio
ignatius igor ihab ikenna iker ilaria ilham ilker ilona ilse ilya ilze imad iman imani imelda imma imogen imran imre
inbal indira ineke ines inese inga inge inger ingrid ingunn ingvild inmaculada inácio inès inés ioan ioana ioanna
ioannis iolanda iona irena irene ireneusz irina iris irma irmgard isaac isabel isabella isabelle isaiah isak isamu
isaure isha ishaan ishita isidro isla ismail isobel isolde istván itai italo itamar itsuki itzel itziar iva ivan ivana
iveta ivo ivy iwona ixchel iñaki jaan jabari jaber jacinto jack jackie jacob jacobo jacopo jacqueline jacques jacquot
jade jaden jadwiga jagdish jaime jair jake jakob jakub jalal jamal james jamie jamila jana janaki jane janet janice
janina janine janis janneke janusz jared jari jarkko jarle jarno jaroslav jarosław jasim jasmin jasmine jasna jason
javier jay jaya jayant jayden jayesh jayne jean jean-baptiste jean-claude jean-luc jean-marc jean-michel jean-paul
jean-pierre jeanette jeanne jeannine jedediah jeff jeffrey jelani jelle jen jenna jennifer jenny jens jenő jeremiah
jeremy jeroen jerome jerry jerzy jess jesse jessica jessie jesús ji-eun ji-ho ji-hoon ji-woo ji-young jia jiahao jian
jianhua jianjun jiawei jihye jikke jill jim jimena jimmy jin jing jingyi jinhai jiri jiro jitka jiří joachim joakim
joan joana joanna joanne joaquim joaquin joaquín jocelyn jocelyne jodie joe joel johan johann johanna johannes john
johnny jolanta jolene jon jonah jonas jonathan jonny joost jordan jordi jorge jorgen joris jose josef josefina josep
joseph josephine josette josh joshua josiane josie jost josué josé jovan joyce jozef joão joëlle juan juana juanita
juanma judit judith judy juha juhani jukka julia julian juliana julie julien juliet julieta juliette julio julius
julián jun-ho junichi junjie junko jurgita jurriaan jussi justin justine justyna jutta jyoti jérémie jérôme józsef jörg
jörn júlia jürgen jüri jānis kaan kaarel kaarina kabir kadri kaede kagiso kahurangi kai kaia kaisa kaitlyn kaito kajal
kalpana kamal kamala kamau kamil kamlesh kamran kana kanako kaori kaoru kapil kara karanja karen kari karim karima
karin karina karl karl-heinz karla karolina karsten karthik kartik kaspars kasper katalin katarina katarzyna kate
katerina katharina katherine kathleen kathrin kathryn kathy katia katie katja katri katrin katrina katsumi katya
kaushik kaveh kavita kayla kazimierz kazuki kazuko kazuo kazuya keanu kehinde kei keiko keisha keisuke keith kelechi
kelly kelsey kemal kendra kendrick kenichi kenji kenneth kenny kenta keola keren kerr kerry kersti kerstin keshav ketan
kevin khadija khadijeh khaled khalid khalil khanh khumalo kieran kim kimberly kimiko kinga kiran kirill kirk kirsten
kirsty kishore kiyoshi kjell kjersti klaudia klaus knud knut koen kofi kohei koichi koji kojo komal konrad konstantin
konstantina konstantinos konstanty korbinian kostas kosuke kotaro kouta krishna krista kristen kristian kristin
kristina kristjan kristof kristoffer kritika krystal krzysztof ksenia kseniya kuldeep kumar kumiko kunal kunigunde kurt
kwabena kwaku kwame kyle kylie kyoko kyriaki kyung-soo károly külli kęstutis lachlan laerte laetitia laia laima
laimonas lakshmi laleh lalit lambros lara larissa larry lars lasse lata latifa latoya laura lauren laurence laurent
laurie laurène lavanya layla leah leandra leandro leanne leberecht lech lee lei leif leila leilani leire lena lenka
lennart leo leocadia leon leona leonard leonardo leonidas leonie leonor leopold lerato leroy leslie leszek leticia
letizia lev levente levi lewis leyla leyli liam lian lidia lidija lien lieselotte liga lihua lijuan lila lilian liliana
liling lillian lily lin lina linas linda lindiwe lindsay lindsey ling linh linus lionel lior liora lisa lise liselotte
livia livio liz lizzie ljiljana lleucu llewellyn lloyd logan lois lokesh lola lora loredana lorena lorenza lorenzo
loretta lori lorraine lothar lotte lottie louis louisa louise lourdes loïc luan lubna lubomir luc luca lucas lucia
luciana luciano lucie lucien lucienne lucinda lucio lucy ludivine ludmila ludmilla ludovic ludwig luigi luigia luis
luisa luiz luka lukas lukasz luke lumumba luna luísa lydia lyle lynn lysander lyudmila lászló léa léna léo léon léonie
lígia maarja maarten maartje maayan mabel macarena macdara maciej maddalena maddie madeleine madeline madhu madison
maeve magda magdalena magnus maha mahdi mahesh mahmoud mahnaz mahsa mai maija maire mairead mairi maite maja majid
majida makana makena maki makiko makoto maksim malachy malak malcolm malgorzata malia malik malika malin malini malte
mamadou mami mana manabu manaia mandeep mandy manfred manfredi manish manisha manju manoj manolo manon mansour mantas
manuel manuela mara marc marcel marcelina marcella marcelle marcello marcelo marcia marcin marco marcos marcus marek
margaret margarita margaux margherita margot marguerite maria mariah mariam mariama mariana mariangela marianne mariano
maribel marie marie-claire marie-france marieke mariela mariella marija marijana marijke mariko marilyn marina mario
mariola marion marios marisa marisela marisol marissa marit marita marius mariusz marjatta marjorie markku marko markus
marlene marlies marloes marlon marmaduke marsha mart marta martha marthe martin martina martine marty martí maruja
marvin marwa marwan mary maryam maryna marília masaaki masahiro masako masami masao masaru masashi masato masego masha
mason masoud massimiliano massimo mateja mateo mateu mateusz mathias mathieu mathilda mathilde mathis matilda matt
matteo matthew matthias matthieu matti matías maud maura maurane maureen maurice mauricio maurizia mauro maxence maxime
maximilian maximo maxwell maya mayank mayu mayumi maël maëlle maëlys małgorzata mechthild meenakshi meera megan megumi
mehdi mehmet mehrdad mehul mei meike meinhard meir mel melanie melinda melissa menachem mercedes merche mercè meredith
mert merve mette mia micah michael michaela michal michalis michał michel michela michele michelle michiko mickaël
midori mieczysław mieke miguel mihai mihkel mihoko mika mikael mike mikhail mikkel mikko miklós mila milada milan
milena milica milind milo milos miloš mimi min-ji min-jun mina minako mindaugas ming mingyu minh minna minoru miranda
mireia mireille mirek mirella miri miriam mirjam mirjana miroslav mirosław mirto misaki misha mitch mitchell mithun
mitsuko mitsuo miyako miyu miyuki mizuki mladen moacir mohamed mohammad mohammed mohan mohit mohsen moira moises
mojtaba molly momoko mona monica monika monique montgomery montse morag mordechai morgan morris morwenna moses moshe
mounir moussa mpho mugisha muhammad muireann mukesh mukta muna munir murat murdo muriel mustafa mustapha mwangi myles
myra myriam márta mátyás máté märt mélanie mélissa mārtiņš naama nabil nabila nacho nadav nadezhda nadia nadim nadine
nadège naeem najib nala nalani namrata nanami nandi nandini nanna nao naoki naoko naomi narciso narendra naresh nasrin
nasser natalia natalie natalija nataliya natasa natasha nate nathalie nathan nathanael nathanaël nathaniel natsuki
natsumi natália naveen navid navin nayeli nazanin nazario nazli neal nebojša ned neelam neeraj neeta neha neil
nektarios nell nelson nenad nerea nerys nestor neta neus neville ngaio ngaire ngoc ngozi nguyen nhung nia niall niamh
nicholas nick nicky nico nicola nicolas nicole nicoletta nicolás nidhi niek niels nieves nigel nihat niilo nikau nikhil
niki nikita niklas nikodem nikola nikolai nikolay nikoleta nikos niloofar nils nina ninon nir nirit nirmala nisha
nishant nitin nitzan nivaldo njeri nkechi nkosazana nnamdi noah noboru nobuko nobuo nobuyuki noel noelani noelia noelle
noemi noga nora norah norbert norberto noriko norma norman nosipho noura noémie noëlle ntombi nuno nuray nuria nurit
nyambura nyokabi obi obinna ochieng octavia octavian octavio océane oddvar odette odhiambo ofer ofir ofra ohad oisin
oksana olaf olav olaya oleg oleh oleksandr olena olga oliver olivia olivier olof olumide oluwaseun oluwatobi olympe
olívia omar omari omer omid omkar ondine ondrej ondřej onyeka oona oonagh orane orazio oren orhan oriol orit orla
orlaith orlando orly ornella orsolya orson ortrud osamu oscar oskar oskari osman osvaldo ottilia ottilie ottmar otto
otávio oumar ousmane outi owen ozan oğuz paavo pablo paca paco padraig paige paivi palesa pallavi palmira paloma pam
pamela panagiota panagiotis pankaj panos paola paolo paraskevi parisa parth parvati parvin pascal pascale pascaline
pasquale patrice patricia patricio patrick patrik patrizia patti patty pau paul paula paulette paulina pauline paulo
pavel pavla pavlos pawel paweł payal payam peadar pedro peeter peggy pejman pekka pelin penelope pepe percy peregrine
pernille perrine perry petar pete peter petra petri petros petteri phil philip philipp philippa philippe phillip
philomena philomène phoebe phuong piero pierre pierrick pieter pietro pilar pim ping piotr piotrek piret pirjo polina
polly pooja prabhakar prachi pradeep pragya prakash pramod pranav prasad prashant pratibha pratik praveen preben
predrag preethi preeti prem preston priit primitivo priscilla priti priya priyanka priyansh pushpa pádraig péter qiang
qing qiu quang quentin quetzal quincy quinn quique quitterie quynh raanan rabia rachael rachel radek radha radka
radmila radoslav radosław raed rafa rafael rafal raffaele raffaella rafferty raghav ragnar ragnhild raheem rahul
raimondo raimonds raimundo rainer raivo raj raja rajani rajat rajeev rajendra rajesh rajiv rakesh ralf ralph rama
ramesh rami ramiro ramon ramona ramya ramūnas randall randy rangi ranjan ranjit ranko ranya raphael raphaël rashid
rashida rashmi raul ravi ravindra raymond raymonde raíssa rebecca recep reem reet refilwe regina reginald rei reidar
reijo reika reiko rein reina reiner reinhard reinhold rekha remedios remy renan renata renate renee rens renu renzo
rené reshma rethabile reuben reza rhea rhian rhiannon rhodri rhonda rhys rianne ricard ricardo riccardo richa richard
rick ricky rigoberto riho riikka riitta riko riley rima rina risa rishabh rishi rita ritesh ritu rivka riyad robert
roberta roberto robin rocio rocío roderick rodion rodney rodolfo rodolphe rodrigo roger rohan rohini rohit roisin
roksana roland rolf romain roman romane romeo romina ron ronald ronan ronen rong roni ronit ronnie roos roque rory rosa
rosalba rosalie rosalind rosanna rosario roselyne rosendo roshan rosie ross rossana roswitha roxana roxane roxanne roy
roya ruairi ruben ruchi rufino rufus ruggero ruolan rupali rupert ruslan russell ruth ruud ruy ružica ryan ryo ryohei
ryoichi ryoko ryosuke ryota ryszard ryuichi régine régis réka rémi rémy róisín rónán rüdiger rūta saad saanvi saba
sabina sabine sabino sabrina sachiko sachin sadhana sadie saeed sagi sahar saif saki sakura salim sally salma salman
salomé salvatore sam samanta samantha samar sameer sami samir samira sammy samuel sanaa sancho sanda sandeep sander
sandis sandra sandrine sandrino sandro sandy sang-hoon sangeeta sanja sanjana sanjay sanna sanne santi santiago santino
santosh saoirse sara sarah sari sarita sasha satish satomi satoshi satu saturnino saul saulius sava sayaka sayuri
scarlett scott seamus sean sebastian seema sefu seiji selena selim selina selma semyon senan seo-yeon sepideh seppo
septimus serena serge sergei sergey sergi sergio serkan seth seun seung-ho severino sevgi seán shadi shahid shahin
shahram shai shaima shalini shan shane shani shankar shannon shantanu shaoqi sharad sharmila sharon sharona shashi
shaun shauna shawn sheetal sheila shelby sheldon shelley shelly sheng sherry shigeru shiho shilpa shinji shiori shira
shirin shirley shivam shivani shizuka shizuko shlomi shlomo shmuel shobha shogo shoji shona shoshana shota shreya
shrikant shruti shubham shun shunsuke sian siavash sibel sibylle siddharth sidney siegfried sieglinde siena sigal
sigmund sigrid sigurd siim silas silje silke silvano silvester silvia silvina silvio simon simona simone simonetta
simão siméon sinan sindre sinead sinéad siobhan sipho sirje sirpa sita siu sixto siyabonga sizwe sjoerd slavica slavko
slavomir sneha snehal snežana socorro sofia sofie sofija soichiro solange solenne solène sonal sonali sonia sonja
soo-jin sophia sophie soraya sorcha soren sosuke sotiria sotiris spiros srinivas sriram stacey stacy staffan stan
stanislav stanisław stanley stavros stefan stefania stefanie stefano steffen steffi stefka stelios stella sten stepan
stephan stephanie stephen steve steven stewart stig stine stratos struan stuart stéphane stéphanie su-jin subhash sudha
sudhir suhas sujata sujay suman sumiko sumit sumitra sun-hee sung-min sunil sunita sunniva suresh surya susan susana
susanna susanne sushma susie susumu suzanne suzette suzy svea sven svenja svetlana svitlana swantje swapnil swati
sylvain sylvia sylviane sylvie sylwia synne synnove szymon sándor séamus séverine sônia sönke sörge süleyman tabitha
tadashi tadeo tadesse tadeusz tadhg tae-hyun taha taichi taina taisia taiwo takahiro takako takao takashi takayuki
takeshi takuma takumi takuya talal talia tamar tamara tameka tamer tamika tamiko tammy tamás tane taner tanguy tanja
tanmay tanvi tanya tapio tara taras tariq tarja tarkan taro tarquin tarun tasha tatiana tatjana tatsuya tatyana taylor
taymour taís ted teemu tegan tejas telma telmo temitope tendai teodor teodora teodoro terence teresa tereza terhi teri
terje terrance terrence terry tess tessa tetsuya thabo thaddeus thanasis thandiwe thanh thao thea thelma theo theodora
theodore theodoros theresa theresia thiago thibault thibaut thierry thijs thodoris thomas thora thorbjorn thorsten thuy
théo théodore théophile tiago tiana tiffany tihomir tiina tiit tijn tilda tim timo timofey timothy tina tinashe ting
tiphaine titouan tiziana tiziano tjeerd tlaloc tobiah tobias toby todd toivo tolga tom tomas tomasz tomer tomi
tommasina tommaso tommi tommy tomohiro tomoko tomomi tomoya tomás tomáš toni tonino tonje tony toomas torbjorn torgeir
tormod torquil torstein torsten toru toshiko toshio tova tove tracey tracy trang traudl travis trevor triin trine trinh
trisha tristan trond troy trude trudy trung trupti tsepo tsubasa tsuyoshi tuan tuncay tunde tuomas turid tushar tuula
tuyet tuğba tyler tyrone tzipi tzvi tânia tõnu tünde ubaldo uche uchenna uday udo ufuk ugo ujjwal ulf ulla ulric ulrich
ulrike ulysse uma umar umberto una unni urbano urho uriel urmas urmila ursula ursulina urszula usha uta ute uwe vaclav
vadim vaibhav vaida valdemar valdis valentin valentina valentine valentyna valentín valeria valerie valéria valérie
vandana vanessa vani vanja vappu varun vasco vasilis vasily vassilis vasudha vaughn veena veikko veit velma venkat vera
verena verity veronica veronika vesa vesna vicent vicente vicki vicky victoire victor vidya vigdis viggo vijay vijaya
vikas vikram viktor viktoria viktoriya villads ville vilma vilmos vimal vinay vince vincent vincenzo vineet vinh vinita
vinod vinícius violaine violet violeta vipul viraj virat virgil virginie vishal vitaly vitor vittoria vittorio vivaan
vivek vivian viviana vivien vivienne vlad vladan vladimir vladislav vlasta vojtech vojtěch volkan volker volkmar
volodymyr vuk vytautas václav véronique wade wael wafa wafula wakana walburga waleed walid wallace walter waltraud
wambui wanda wangari wanjiru warren wassim wataru wayne wei weijie wenche wendelien wendelin wendy wenjie werner wesley
whitney wiebke wieneke wiesław wilfred wilfredo wilfried wilhelm wilhelmina willem william willie wilma winfried
winifred winston wiremu witold wladyslaw wojciech wolfgang wolfram woo-jin wouter władysław xanthe xaver xavier xavière
xia xiang xiao xiaoling xiaoming xiaoyu ximena ximo xin xinyi xiu xoana xochitl xuan xue xóchitl yaa yaakov yael yago
yahya yair yakov yamini yan yana yang yann yannick yannis yara yaretzi yariv yaroslav yaroslava yasemin yash yashwant
yasir yasmin yasmine yasuhiro yasuko yasuo yating ye-jin yegor yehuda yelena yevgeny yewande yi yiannis yifan yijun
yilmaz ying yoav yochanan yogesh yoichi yoko yolanda yolande yonatan yoon-ah yoshi yoshiaki yoshie yoshiko yoshio yossi
yosuke yotam youko young-hee yousef youssef youssouf yu-na yuan yue yui yukari yuki yukiko yukio yuko yulia yumi yumiko
yun yunfei yuri yuriko yusuf yusuke yuta yutaka yuto yuval yuvraj yuya yuzuki yves yvette yvon yvonne yvonnick yıldız
zac zacarías zach zacharie zachary zahra zaid zainab zakaria zaki zane zanele zara zawadi zdenek zdenka zdeněk zebedee
zeev zehava zehra zeinab zeke zeki zenon zerrin zeynep zhang zhen zhihao zhiwei ziad zihan zita ziva ziyi zlatko zodwa
zoe zofia zohar zohreh zoi zola zoltan zoltán zora zoran zoé zsofia zsolt zsuzsanna zsófia zuberi zulema zuri zuzana
zélie ângela édith élodie éloïse émile éric étienne ömer özlem ümit łukasz żaneta željko živa žygimantas
""")
"""Given names of many tongues; none of them a common English word."""

GIVEN_CAPITAL: Final = _words("""
amber angel april ash august autumn basil bill bob bobby brandy buddy candy chase christ claude cliff colt coral
crystal daisy dale dawn drew earl eve faith fern frank gene ginger glen grace grant guy hank harsh holly hope hunter
iris jack jan jasper jewel josh joy jun june kit lance laurel lily major mark max may miles nat nick norm olive pat
patsy pearl penny peony phoenix pierce poppy ram ray reed rex rob robbie robin rod rose rosemary rowan ruby rusty sandy
sierra skye sonny spencer sterling sue summer sunny tanner terry tucker victoria violet wade will willow woody zion
""")
"""Given names that are common words or places too: a person only on a cue."""

TITLES: Final = _words("""
aunt auntie brother captain coach detective doctor dr father grandma grandpa granny judge lady lord madame miss mister
mr mrs ms nana officer pastor president prof professor rabbi senator sergeant sir sister uncle
""")

NICKNAMES: Final[dict[str, frozenset[str]]] = {
    short: frozenset(full.split())
    for short, _, full in (
        line.partition(" ")
        for line in """
abby abigail
al alan albert alexander alfred alistair
alex alexander alexandra alexandre alejandro alexandria alexis
alice alicia
allie alison allison alexandra
andy andrew andreas anders
angie angela
annie anne anna ann
ash ashley asher
barb barbara
bea beatrice beatriz
becca rebecca
becky rebecca
bella isabella annabella
ben benjamin benedict bennett
bert albert robert bertram
bernie bernard bernadette
beth elizabeth bethany
betty elizabeth
bill william
billy william
bob robert
bobby robert
brad bradley bradford
bri brianna
cal calvin caleb callum
cam cameron camila
carol caroline carolyn
cassie cassandra
cathy catherine
charlie charles charlotte
chris christopher christian christina christine
christy christina christine
chuck charles
cindy cynthia lucinda
connie constance
dan daniel
dani daniela danielle
danny daniel
dave david
deb deborah
debbie deborah
dee deirdre deanna
dick richard
dom dominic dominik
don donald
doug douglas
drew andrew
ed edward edwin eduardo edgar
eddie edward edwin
ellie eleanor elizabeth ellen
em emily emma
emmy emily emma
fran frances francesca francis francisco
frank francis franklin francesco
fred frederick alfred
gabe gabriel
gabby gabriella gabrielle
gabi gabriela
gail abigail
gene eugene
geoff geoffrey
gerry gerald gerard geraldine
ginny virginia
greg gregory gregor
gus august angus gustavo
gwen gwendolyn
hal harold henry
hank henry
harry harold henry harrison
izzy isabella isabel isabelle
jack john jackson
jackie jacqueline
jake jacob
jamie james
jan janet janice
jen jennifer
jenny jennifer
jeff jeffrey geoffrey
jerry gerald jerome jeremy
jess jessica
jessie jessica
jim james
jimmy james
jo joanna josephine joanne
joe joseph
joey joseph
johnny john
jon jonathan
josh joshua
josie josephine
judy judith
jules julia julian julie
kat katherine kathryn katrina katarina
kate katherine kathryn catherine
kathy katherine kathleen
katie katherine kathryn
ken kenneth kenji
kenny kenneth
kim kimberly
kris kristin kristina kristian
larry lawrence laurence
len leonard
leo leonard leonardo leopold
lexi alexis alexandra
lisa elisabeth elizabeth
liz elizabeth
lizzie elizabeth
lou louis louise
lucy lucia lucinda
lulu louise lucia
maddie madeline madeleine madison
mandy amanda
manny manuel emmanuel
marge margaret marjorie
maggie margaret magdalena
marty martin
matt matthew matthias matteo
mattie matilda
max maximilian maxwell maxine maxim
meg megan margaret
mel melanie melissa melinda melvin
mia maria amelia
mick michael
mickey michael
mike michael
milly mildred millicent camilla
millie mildred millicent camilla amelia
mitch mitchell
mo mohamed mohammed maureen muhammad
moe moses mohamed
molly mary margaret
nat natalie nathan nathaniel natasha
nate nathan nathaniel
ned edward
nell eleanor helen
nick nicholas nicolas dominic
nicky nicole nicholas
nico nicolas nicola
nina antonina
nora eleanor
ollie oliver olivia
oli oliver olivia
pam pamela
pat patrick patricia
patty patricia
peggy margaret
penny penelope
pete peter
phil philip phillip philippa
priscilla priscilla
rafa rafael
ray raymond
reg reginald
rich richard
rick richard ricardo frederick
ricky richard
rob robert roberto
robbie robert
rod rodney roderick
ron ronald
ronnie ronald veronica
rory roderick
rosie rose rosemary rosalie
russ russell
sal salvatore sally
sally sarah
sam samuel samantha
sammy samuel samantha
sandy sandra alexander
sara sarah
sasha alexander alexandra
seb sebastian
shelly michelle rachelle
si simon
sid sidney siddharth
stan stanley stanislav
steph stephanie
steve steven stephen stefan
stu stuart stewart
sue susan suzanne
susie susan suzanne
ted edward theodore
teddy theodore edward
terry terence theresa
tess theresa tessa
theo theodore
tim timothy
tina christina martina
toby tobias
tom thomas tomas
tommy thomas
toni antonia
tony anthony antonio
tori victoria
tracy theresa
trish patricia
val valerie valentina valentine
vic victor victoria
vicky victoria
vince vincent
viv vivian vivienne
walt walter
wes wesley
will william wilhelm wilfred
zac zachary
zach zachary
""".strip().splitlines()
    )
}
"""Short form → given names it may stand for."""

PLACES: Final = _words("""
aberdeen abuja accra adelaide afghanistan africa agra ahmedabad alabama alaska albania alberta albuquerque aleppo
alexandria algeria algiers alps amazonia amman amsterdam anaheim anchorage andalusia andes andorra angola ankara
antalya antarctica antwerp appalachians arequipa argentina arizona arkansas armenia aruba asheville asia athens atlanta
auckland australia austria azerbaijan baghdad bahamas bahrain baku bali balkans baltimore bamako bangalore bangkok
bangladesh barbados barcelona basel bavaria beijing beirut belarus belfast belgium belgrade belize bengal bengaluru
benin bergen berkeley berlin bermuda bern bhutan bilbao birmingham bogota bogotá boise bolivia bologna bordeaux bosnia
boston botswana boulder brasília bratislava brazil bremen brighton brisbane bristol brittany brno bronx brooklyn bruges
brunei brussels bucharest budapest buffalo bulgaria burgundy burlington bursa burundi busan cairo calgary cali
california cambodia cambridge cameroon canada canberra cancun cancún caracas cardiff caribbean cartagena casablanca
catalonia charleston charlottesville chengdu chennai chicago chile china christchurch cincinnati cleveland cologne
colombia colombo colorado columbus congo connecticut copenhagen corfu cork cornwall crete crimea croatia cuba curaçao
cusco cyprus czechia daegu dakar dallas damascus darwin delaware delhi denmark denver detroit devon dhaka doha
dolomites dominica dortmund dresden dubai dublin dubrovnik durban durham düsseldorf ecuador edinburgh edmonton egypt
eindhoven england eritrea essen essex estonia eswatini ethiopia eu eurasia europe everest fez fiji finland florence
florida france frankfurt fresno fuji fukuoka gabon galicia galway gambia gdansk gdańsk geneva genoa georgia germany
ghana ghent gibraltar glasgow goa gothenburg granada graz greece greenland grenada grenoble guadalajara guadeloupe guam
guangzhou guatemala guayaquil guinea gujarat guyana hague haifa haiti halifax hamburg hamilton hangzhou hanoi hanover
harare harlem havana hawaii heidelberg helsinki hesse himalayas hiroshima hobart hokkaido hollywood honduras honolulu
houston hungary hyderabad ibiza iceland idaho illinois india indiana indianapolis indonesia innsbruck iowa iran iraq
ireland israel istanbul italy izmir jaipur jakarta jamaica japan jeddah jerusalem johannesburg kabul kampala kansas
karachi karnataka kashmir kathmandu kazakhstan kent kentucky kenya kerala kharkiv kigali kilimanjaro kingston kinshasa
knoxville kobe kochi kolkata kosovo krakow kraków kreuzberg kuwait kyiv kyoto kyrgyzstan la lagos lahore laos latvia
lebanon leeds leiden leipzig lesotho leuven liberia libya liechtenstein lima linz lisbon lithuania liverpool liège
ljubljana lombardy london louisiana lucerne lucknow lusaka luxembourg lviv lyon macau madagascar madeira madrid
maharashtra maine malaga malawi malaysia maldives mali malibu malmo malmö malta manchester manhattan manila manitoba
maputo marrakech marrakesh marseille martinique maryland massachusetts mauritania mauritius mecca medellin medellín
mediterranean melbourne memphis mexico miami michigan milwaukee minneapolis minnesota minsk mississippi missouri
moldova mombasa monaco mongolia montana montenegro montevideo montmartre montpellier montreal montréal morocco moscow
mozambique mumbai munich myanmar mykonos mysore málaga münster nagasaki nagoya nairobi namibia nantes naples nashville
nebraska nepal netherlands nevada newark newcastle nicaragua niger nigeria normandy norway nottingham nuremberg nyc
oakland oaxaca oceania odessa ohio okinawa oklahoma omaha oman ontario oregon orlando osaka oslo ottawa oxford padua
pakistan palermo palestine panama paraguay paris patagonia patna penang pennsylvania perth peru philadelphia
philippines phnom pisa pittsburgh plovdiv poland portland porto portugal potsdam poznań prague pretoria provence pune
punjab pyongyang pyrenees qatar quebec queensland quito québec rabat rajasthan raleigh reykjavik reykjavík richmond
riga rochester rockies romania rome rotterdam russia rwanda sacramento sahara salzburg samoa santorini sapporo sarajevo
sardinia saskatchewan savannah saxony scandinavia scotland scottsdale seattle senegal seoul serbia serengeti seville
seychelles sf shanghai sheffield shenzhen shibuya shinjuku siberia sicily singapore skopje slovakia slovenia sofia soho
somalia somerset southampton spain stockholm strasbourg stuttgart sudan surat suriname sussex sweden switzerland sydney
syria taipei taiwan tajikistan tallinn tampa tampere tanzania tashkent tasmania tbilisi tehran tennessee texas thailand
thessaloniki tibet tijuana tirana togo tokyo toledo tonga toronto toulouse trieste tucson tulsa tulum tunis tunisia
turin turkmenistan tuscany tuvalu uae uganda uk ukraine umbria uruguay usa utah utrecht uzbekistan valencia valletta
vancouver vanuatu venezuela venice vermont verona vienna vietnam vilnius virginia vladivostok wales warsaw washington
wellington wichita wiltshire winnipeg wisconsin wroclaw wrocław wuhan wyoming xi'an yellowstone yemen yokohama york
yorkshire yosemite yucatan zagreb zambia zimbabwe zurich zürich
""")

PLACES_CAPITAL: Final = _words("""
adelaide alexandria aurora austin bath bergen brooklyn buffalo carolina chad charlotte chelsea cologne cork dallas
devon essen florence georgia guinea houston hull jackson jordan kent lansing lima lincoln lourdes madison mali memphis
milan mobile nice niger oman orange paris phoenix reading regina salem sofia split surrey sydney troy turkey victoria
""")
"""Places that are given names or words too: places only on a cue, or when no person of that name is known."""

PLACES_LONG: Final = _phrases("""
abu dhabi, addis ababa, alice springs, amalfi coast, angkor wat, ann arbor, balearic islands, baton rouge, bay area,
belo horizonte, big sur, black forest, bosnia and herzegovina, british columbia, buenos aires, burkina faso, byron bay,
canary islands, cape town, cape verde, central america, central park, chiang mai, cinque terre, colorado springs, costa
brava, costa del sol, costa rica, czech republic, da nang, dar es salaam, death valley, den haag, des moines, district
of columbia, dominican republic, east coast, eastern europe, eiffel tower, el paso, el salvador, fort worth, french
riviera, galápagos islands, gaza strip, gold coast, golden gate bridge, golden gate park, grand canyon, grand rapids,
great barrier reef, great britain, great wall, guadalupe, ha long bay, hawaii, ho chi minh city, hong kong, hyde park,
isle of skye, isle of wight, ivory coast, kansas city, kuala lumpur, lake como, lake district, lake geneva, lake
michigan, lake tahoe, las vegas, latin america, long beach, long island, los angeles, machu picchu, menlo park, mexico
city, middle east, midwest, monte carlo, mount everest, mount fuji, mount kilimanjaro, mount rainier, mountain view,
napa valley, new brunswick, new delhi, new england, new hampshire, new jersey, new mexico, new orleans, new south
wales, new york, new york city, new zealand, niagara falls, north america, north carolina, north dakota, north korea,
north macedonia, northern ireland, nova scotia, pacific northwest, palo alto, panama city, papua new guinea, phnom
penh, port au prince, port louis, porto alegre, prince edward island, puerto rico, quebec city, rhode island, rio de
janeiro, saint petersburg, salt lake city, san antonio, san diego, san francisco, san jose, san juan, san salvador,
santa barbara, santa clara, santa cruz, santa fe, santa monica, santo domingo, sao paulo, saudi arabia, siem reap,
sierra leone, silicon roundabout, silicon valley, south africa, south america, south carolina, south dakota, south
korea, south sudan, southeast asia, sri lanka, st louis, st. john's, st. louis, st. lucia, st. moritz, st. petersburg,
staten island, sunshine coast, são paulo, table mountain, taj mahal, tel aviv, the hague, tierra del fuego, times
square, trinidad and tobago, united arab emirates, united kingdom, united states, united states of america, virginia
beach, wall street, washington d.c., washington dc, west bank, west coast, west virginia, western australia, western
europe
""")

ORGANISATIONS: Final = _words("""
accenture adidas adobe airbus akamai aldi alibaba allianz alphabet amazon amd amgen anthropic asana asus atlassian audi
autodesk axa baidu barclays basf bayer bbc bcg bechtel biontech blackrock blackstone bloomberg bmw boeing bosch bp
broadcom bytedance canon capgemini carrefour cern cerner chevrolet chevron chrysler cisco citi citibank citigroup
citrix cnn cognizant cohere coinbase comcast continental costco databricks deepmind dell deloitte deutsche dhl didi
disney dji doordash dyson edf eli epa ericsson esa expedia exxon exxonmobil fbi fda fedex ferrari fidelity fiverr ford
foxconn fujitsu gartner genentech glovo godaddy goldman google gucci haribo harvard heineken hermes hilton hitachi hmrc
honda honeywell hp hsbc htc huawei hyundai ibm ikea infineon infosys instacart intel intuit ipcc irs jpmorgan kellogg's
kfc kia kickstarter klarna kodak kpmg lego lenovo lg lidl lloyds lockheed logitech loreal lufthansa lyft maersk
marriott mastercard mattel mcdonald's mcdonalds mckinsey medtronic mercedes-benz merck microsoft miele mistral mit
mitsubishi moderna monzo motorola n26 nasa nato nbc nestle nestlé nhs nike nintendo nissan nokia northrop novartis nsa
nvidia nyu openai oxfam palantir panasonic peloton pepsi pepsico pfizer philips porsche puma pwc qualcomm raytheon
renault revolut roche rolex roomba ryanair sainsbury's salesforce samsung sanofi sap sega sequoia servicenow shein
shopify siemens snap softbank sony sorbonne spacex stanford starbucks stripe subaru suse suzuki telefonica telekom
tencent tesco tesla thyssenkrupp toshiba toyota trivago tsmc twilio uber ubisoft ubs ucla ucsf unesco unicef unilever
ups usps vanguard verizon vodafone volkswagen volvo walgreens walmart waymo wework wikimedia workday xerox xiaomi yahoo
yale yandex zalando zara zillow zynga
""")

ORGANISATIONS_CAPITAL: Final = _words("""
airbnb amazon apple arm block canva citi cloudera continental coursera datadog deutsche dropbox duolingo ebay etsy
facebook fidelity ford gap github gitlab goodreads grammarly hermes instagram kaggle linkedin meta mistral netflix okta
oracle orange paypal puma quora reddit sequoia shell skype snap snapchat snowflake soundcloud spotify sprint square
strava target tiktok tumblr twitch twitter udemy un unity vanguard visa whatsapp who yelp youtube zara zendesk
""")
"""Organisations that are words, names or places too: on a cue, or in the middle of a sentence."""

ORGANISATIONS_LONG: Final = _phrases("""
activision blizzard, air france, american airlines, american express, amnesty international, apache software
foundation, associated press, bank of america, bayern munich, best buy, boston celtics, boy scouts, british airways,
burger king, carnegie mellon, chicago bulls, coca cola, coca-cola, credit suisse, delta airlines, deutsche bahn,
deutsche bank, deutsche telekom, digital ocean, doctors without borders, dunkin donuts, electronic arts, epic games,
ernst & young, eth zurich, european central bank, european commission, european union, fc barcelona, federal reserve,
financial times, free software foundation, general electric, general motors, georgia tech, girl scouts, golden state
warriors, goldman sachs, habitat for humanity, harvard university, home depot, hugging face, jet brains, johnson &
johnson, land rover, linux foundation, los angeles lakers, louis vuitton, manchester city, manchester united, morgan
stanley, mozilla foundation, new york times, new york yankees, oxford university, peace corps, pizza hut, planned
parenthood, procter & gamble, real madrid, red cross, red hat, rockstar games, rolls royce, salvation army, southwest
airlines, stanford university, supreme court, taco bell, texas instruments, the guardian, trader joe's, uc berkeley,
under armour, united airlines, united nations, universal pictures, wall street journal, warner bros, washington post,
wells fargo, white house, whole foods, world bank, y combinator
""")

PROJECTS: Final = _words("""
aiohttp airbnb airflow alembic algolia amplitude anaconda android angular ansible anthropic-sdk antigravity antlr
apollo-client appium appveyor arangodb archlinux argocd arrow-rs asyncio asyncpg auth0 autogen autogpt autoprefixer aws
axios axum azure babel backbonejs bazel bcrypt beautifulsoup behance bigquery bitbucket bitwarden bokeh bootstrap4
bootstrap5 boto3 botocore bower browserify buildah buildkite bullmq bundler c# c++ calcite canva celery centos certbot
cesium chartjs chatgpt checkstyle chromadb chromium circleci ckeditor clang claude claude-code clickhouse clojure
cloudera cloudflare cloudformation cloudwatch cmake cobol cockroachdb cocoapods codebert codecov codeium codemirror
codepen codex coffeescript commitlint confluence containerd contentful copilot cosmosdb couchbase couchdb coursera
cpanel cpython crewai cron cursor.sh cypress cython datadog datagrip dbeaver dbt debian delta-lake deno dependabot
devcontainer dgraph discord.js django docker dockerhub dotenv dotnet dropbox drupal duckdb duolingo dynamodb ebay
eclipse-ide efcore eks elasticsearch electronjs elixir emacs ember.js erlang esbuild eslint etcd ethereum etsy
excalidraw expressjs f# fabricjs facebook faiss fastapi fastify fedora ffmpeg figma filebeat firebase firestore fitbit
flask flink fluentd flutter fortran fzf gatsby gcc gcp gdb gemini geopandas gevent ghcr gimp git gitea github
github-actions gitkraken gitlab gke godot golang goodreads gopro gpt-3 gpt-3.5 gpt-4 gpt-4o gradio gradle grafana
grammarly graphene graphql graphviz grpc gunicorn h2o hadoop haproxy haskell hasura hbase hdfs helmfile heroku
hibernate homebrew htmx httpie httpx hubspot huggingface hulu hypercorn icloud imagemagick influxdb instagram ios ipad
iphone ipython istio jaeger jasmine-js java javascript jdbc jekyll jenkins jetbrains jetty jinja jinja2 jira joblib jpa
jquery jsdom junit jupyter jupyterlab jwt k3s k8s k9s kafka kaggle keras keycloak kibana kindle knockoutjs kotlin
kubectl kubernetes kustomize langchain langgraph langsmith laravel latex ldap lerna leveldb libuv lightgbm linkedin
linkerd linux llama llama2 llama3 llamaindex llvm localstack lodash logstash lucene lxml macbook macos magento
mailchimp mailgun makefile mapbox mapreduce mariadb marshmallow matplotlib mattermost maven mediawiki memcached
mercurial mingw minikube minio mixpanel mlflow mlx mongodb mqtt msgpack mssql mypy mysql mysqli n8n neo4j neovim nestjs
netflix netlify networkx newrelic next.js nextjs nginx ngrok nix nixos nltk node.js nodejs nodemailer nodemon nosql npm
numba numpy nuxt nuxtjs nx oauth ocaml octave okta ollama onnx onnxruntime openapi opencode opencv opensearch openshift
openssl openstack opentelemetry orjson pandas paramiko parquet passport.js paypal perl phantomjs photoshop php
phpmyadmin phpunit pinecone pinia pip pipenv playstation plotly plotly.js pm2 pnpm podman polars postcss postfix
postgis postgres postgresql powerbi powerpoint powershell pre-commit prisma prometheus protobuf proxmox psycopg
psycopg2 pulumi pyarrow pycharm pydantic pygame pyinstaller pylint pypi pyqt pyright pyspark pytest python python3
pytorch qdrant qgis qt quarkus quora rabbitmq raspbian rdbms react-native reactjs reddit redhat redis redux regex101
retrofit rhel rocksdb rollup rspec rstudio rubocop rubygems ruff rustc rustup rxjs s3 sagemaker sbt scala scikit-learn
scipy scrapy scrivener seaborn selenium sendgrid serverless-framework shadcn sharepoint shopify-api sidekiq sinatra
sklearn skype snapchat snowflake socket.io solidity solr sonarcloud sonarqube soundcloud spacy sphinx spinnaker splunk
spotify springboot sqlalchemy sqlite sqlite3 sqlx sqs squarespace starlette statsmodels storybook strava streamlit
styled-components subversion supabase svelte sveltekit swiftui sympy systemd tailscale tailwind tailwindcss tantivy
tauri teamcity telegraf tensorboard tensorflow terraform testflight three.js threejs tiktok timescaledb tmux tokio
tomcat torchvision traefik trello trpc tslint tumblr turborepo twitch twitter typeorm typescript ubuntu udemy uvicorn
uwsgi vercel vim virtualbox virtualenv visx vite vitepress vitest vscode vue vue.js vuejs vuetify vuex vyper wagtail
wandb wasm weaviate webassembly webflow webgl webpack webrtc websocket werkzeug wezterm whatsapp wireguard wireshark
wix wordpress wsl wsl2 xamarin xbox xcode xgboost yelp yolov5 youtrack youtube zapier zendesk zeromq zig zookeeper
zotero zsh zustand
""")
"""Software, languages and services written so that no other word looks like them, in any case."""

PROJECTS_CAPITAL: Final = _words("""
ada airflow alpine ansible apache apollo arrow assembly atlas atom babel bard bash basic bazel beam bison black blender
bootstrap caddy calendly canvas cassandra celery chai chef chrome cline codespaces confluence consul crystal cypress
dart dash dask datadog delphi discord docusaurus drizzle dropbox eclipse elastic electron elm ember envoy evernote
excel expo express facetime fedora figma firefox flask flink formik gatsby ghost gin git github gitlab gmail go godot
gorm grok groovy guice gulp helm hive hugo iceberg insomnia ionic jasmine jax jenkins jest julia jupyter kafka kanban
keynote kinesis koa lambda lerna lightning linear lisp loki lua lucene luigi mamba markdown mastodon matlab maven
mercurial metabase metasploit midjourney miro mistral mocha mongoose mozilla nano nats nest next node nomad notion
obsidian octave onedrive outlook packer pandas parcel pascal perl perplexity phoenix photoshop poetry polars postman
powerpoint prefect presto prettier processing prolog puppet puppeteer pyramid quarto rails rancher ranger rasa ray
react redis redshift redux remix replit roam rocket rollout rollup ruby rust safari sanic sass scala scheme selenium
sentry sidekiq signal sketch slack snowflake spark sphinx splunk spring squid stripe superset swagger swift tableau
telegram tesseract titan tornado traefik travis trello trino turbo twig ubuntu unity unix unreal vagrant vault vercel
vim vite vue warp webex webflow whisper wordpress xcode xen yarn yolo zapier zig zod zoom zotero
""")
"""Software whose name is a word too: capitalised, on a cue or in the middle of a sentence."""

PROJECTS_LONG: Final = _phrases("""
.net core, adobe illustrator, adobe photoshop, amazon rds, amazon redshift, amazon s3, amazon web services, android
studio, apache airflow, apache arrow, apache beam, apache cassandra, apache flink, apache hadoop, apache kafka, apache
spark, apple music, arch linux, asp.net core, aws lambda, azure devops, azure functions, chakra ui, chrome devtools,
circle ci, claude code, cloudflare workers, docker compose, docker desktop, docker hub, docker swarm, elastic search,
entity framework, final cut pro, github actions, github copilot, gitlab ci, google analytics, google calendar, google
cloud, google cloud platform, google docs, google drive, google maps, google sheets, hacker news, home assistant,
hugging face transformers, intellij idea, linux mint, llama index, material ui, microsoft azure, microsoft excel,
microsoft sql server, microsoft teams, microsoft word, model context protocol, new relic, next js, node js, objective
c, objective-c, oracle database, playwright test, power bi, raspberry pi, react native, react query, react router, red
hat linux, redux toolkit, ruby on rails, scikit learn, sentence transformers, spring boot, spring framework, sql
server, stable diffusion, stack overflow, styled components, sublime text, tailwind css, travis ci, unity engine,
unreal engine, visual studio, visual studio code, vs code, vue js, windows subsystem for linux
""")

PROGRAMS: Final = _words("""
alembic ansible apt apt-get artisan aws az brew bun bundle cabal cargo celery composer conda dbt deno django-admin dnf
docker docker-compose dotnet dune dvc expo fastlane firebase flask flutter gcloud gh git go gradle grunt gulp gunicorn
hatch helm heroku journalctl knex kubectl launchctl lerna make minikube mix mlflow mvn mysql netlify ng nix nox npm npx
nx opam pacman pdm pip pip3 pm2 pnpm pod podman poetry pre-commit prefect prisma psql rails rake rebar3 redis-cli ruff
rustup sequelize snap stack supabase systemctl terraform tmux tox turbo uv uvicorn vagrant vercel vue wrangler yarn yum
zypper
""")
"""Shell programs whose next word is a subcommand."""

PROGRAMS_ALONE: Final = _words("""
apachectl awk bandit bash black cat cd certbot chmod chown clang clippy cmake convert coverage cp crontab curl cypress
df diff dig du echo env eslint export ffmpeg find flake8 g++ gcc gdb gofmt golangci-lint gpg grep head helix htop
ipython isort java javac jest jq jupyter kill killall less ls lsof mkdir mocha mongo mongosh mount mv mypy mysqldump
netstat nginx ninja node nohup nosetests nslookup nvidia-smi ollama openssl patch perf perl pg_dump pg_restore php ping
playwright prettier ps pylint pyright pytest python python3 rg rm rsync ruby ruff rustc scp sed sh sort source sqlite3
ssh storybook strace streamlit sudo tail tar tee time top touch tox tsc uniq unzip valgrind vite vitest watch wc
webpack wget which xargs yq zip zsh
""")
"""Shell programs whose arguments are no subcommands."""

SUBCOMMANDS: Final = _words("""
add am apply audit bisect blame branch build bump cache check checkout cherry-pick ci clean clone commit completion
compose config console cp create delete deploy describe destroy dev develop diff doc down downgrade download edit eject
exec export fetch fix fmt format freeze fsck gc generate get grep images import info init inspect install lint list
load lock log login logout logs ls merge migrate mv new outdated pack plan port-forward proxy prune ps publish pull
push rebase reflog release remote remove rename reset restart restore revert revision rm rmi rollback rollout run scale
search serve set shell show squash start stash stats status stop submodule switch sync system tag taint test top tree
uninstall up update upgrade use validate vendor version volume watch worktree
""")
"""Second words of a shell command that are trusted outside of backticks too."""

KIN: Final[dict[str, str]] = {
    said: kin
    for kin, _, words in (
        line.partition(": ")
        for line in """
mother: mother mom mum mama mommy mummy mam
father: father dad daddy papa
sister: sister sis
brother: brother bro
son: son
daughter: daughter
wife: wife
husband: husband hubby
partner: partner
spouse: spouse
girlfriend: girlfriend gf
boyfriend: boyfriend bf
fiancé: fiancé fiance
fiancée: fiancée fiancee
grandmother: grandmother grandma gran granny nana grandmom
grandfather: grandfather grandpa granddad grandad
aunt: aunt auntie
uncle: uncle
cousin: cousin
niece: niece
nephew: nephew
stepmother: stepmother stepmom stepmum
stepfather: stepfather stepdad
stepsister: stepsister
stepbrother: stepbrother
mother-in-law: mother-in-law
father-in-law: father-in-law
sister-in-law: sister-in-law
brother-in-law: brother-in-law
grandson: grandson
granddaughter: granddaughter
ex-husband: ex-husband
ex-wife: ex-wife
boss: boss
manager: manager
flatmate: flatmate roommate housemate
dog: dog puppy doggo
cat: cat kitten kitty
parrot: parrot
hamster: hamster
rabbit: rabbit bunny
horse: horse pony
pet: pet
""".strip().splitlines()
    )
    for said in words.split()
}
"""Word of kinship, of a close tie or of a pet → the word its key has."""

DEMONYMS: Final = _words("""
afghan african albanian algerian american arabic argentine argentinian armenian asian australian austrian bangladeshi
basque belgian bengali bosnian brazilian british buddhism buddhist bulgarian burmese californian canadian cantonese
caribbean catalan catholic chilean chinese christian christianity colombian creole croatian cuban czech danish dutch
egyptian english estonian ethiopian european farsi filipino finnish flemish french gaelic german greek gujarati haitian
hawaiian hebrew hindi hindu hinduism hungarian icelandic indian indonesian iranian iraqi irish islam islamic israeli
italian jamaican japanese jewish judaism kenyan korean kurdish latin latvian lebanese lithuanian malay malaysian
maltese mandarin marathi mexican mongolian moroccan muslim nepali nigerian norwegian pakistani palestinian persian
peruvian polish portuguese protestant punjabi roman romanian russian scandinavian scottish serbian singaporean slovak
slovenian somali spanish swahili swedish swiss syrian tagalog taiwanese tamil telugu thai tibetan tunisian turkish
ukrainian urdu victorian vietnamese welsh western yiddish yoruba zulu
""")
"""Peoples, languages and faiths: adjectives of everything, no names of a thing."""

COMMON: Final = _words("""
a about absolutely according act actually ad add added adding additionally afaik after again agent agreed ai aight aka
all allergies allow almost along already alright also alter although always am amazing an and another ansi any anyone
anything anytime anyway anywhere api apis apologies apparently apply appreciate apr april are aren't args as asap ascii
ask asked assistant ast at ate atm attendees aug august available avoid aw awesome aww back background bake based bash
basically bc bce be because been before being believe below besides best better between big bitte blue boil book both
bought bravo brb break brilliant bring brought bsc btw build building built but buy by bye call called came can can't
cannot caution cd cdn ce ceo certainly cfo change changed changelog changes changing check checked checking cheers
choose chop christmas ci ciao classic claus clause clean clear clearly cli click close cmd code come command commit
common compare complete completed conclusion congrats congratulation congratulations cons consider context continue coo
cook cool copy cors could couldn't count covid cozy cpu crazy create created creating critical crud csrf css csv csvs
cto ctrl currently cute cv cwd danke data date day days db dd dear dearest debug dec december decided default define
definitely delete deleted deploy desc details develop did didn't different diy dj dns do document does doesn't doing
don't done down dr drag drink drive drop drove dry during each easter easy eat edit eight either else elsewhere emailed
embrace empty encourage end engage enjoyed ensure eof err error errors especially establish eta etc even eventually
ever every everyone everyone's everything everywhere evp exactly examine example excellent excited exciting exit
explain explore extract fail failed failing fair false fantastic fantasy faq faqs feb february feel felt fetch few fifo
file files final finally find fine finished first five fix fixed fixes fixing fixme flew flight fly focus fold folks
follow following for foster found four fri friday from full function further fwiw fyi gather gave gdpr generate
generated get getting gimme give given giving glad glob gmt go goal going gonna good got gotta gpa gps gpu gracias
graduated gre great greetings grep guess gui guys had haha halloween handle happy has hated have haven't having hdmi he
head heat hello help hence her here here's hey heya hi high highlight his hmm hola hold honestly hooray hope hoped
hopefully how howdy however hr html http https huge human i i'd i'll i'm i've id ide idea identity idk ids ielts if ii
iii iirc imho immediately imo implement implementation implemented important in include included increase indeed info
initial initially injury input inside install instead interesting into invite io ip is isn't iso issue issues it it'll
it's its iv ix jan january join joined json jsonb jsonl jul july jun june just jwts karaoke keep kept key kinda kiss
know knowing kpi kpis last lastly later laughter launch lcd learn learned leave led left lemme less let let's lets lgtm
license like likely limit line lines list listen little live lived llm llms lmao load local log logs lol long look
looking looks lost lots love loved lovely low lru ma'am madam made main maintain major make makes making many mar march
married max may maybe mba me mean meanwhile medium meet mentors merci merge message met method might migrate min mine
minor minutes missed missing mix ml mm mon monday monitor more moreover most move moved movies mr mrs ms msc much
multiple must mvp my n/a na nah name nan nb need needs neither never nevertheless new next nice nil nine no nobody none
nope nor not note notes nothing notice nov november now nowhere null number obviously oct october of off offer oh ok
ok'd okay old older omg on once one only ooh oop oops ootd open option options or orm os other others otherwise ouch
our out output outside over overall own parameters parse part pass passed patch path pay pdf pdfs per perfect perhaps
phase phd phew pid pin place plan planned play played please plus pm poc point possible post posted pour pr practice
practise pray prego prepare previous previously print prior probably problem proceed process pros proud provide prs ps
pto pull push put qa question questions quick quickly quite raises ram ran rather re read reading readme ready really
reason recent recently recommendation reduce refactor reflecting regarding regards regex regular relax remember remove
removed rename render repl replace report request required research reset respect rest result results return returns
reverted review rewrite right ring rip rofl roi rsvp run running safe same sat saturday saturdays save saw say sdk sdks
search seasons second section see seems select sell send sent sep sept september serve set setbacks seven several sha
shall shared she shift short shorter should show shows similarly simple simply since sincerely single sir six skip sla
slice smh sms so sold some somebody somebody's someone something sometimes somewhere soon sorry sorta sos sounds source
specifically spent spread sql ssh ssl start started starting status stderr stdin stdout step steps still stir stop
stopped stories strengths strong studied such suggest suggested summarise summarize summary sun sunday super support
sure svp sweet switch system take takes taking task tasks tbd tbh tcp tdd tell ten test tested testing tests text
texted than thank thanks that that'd that'll that's the their them then there there's therefore these they they're
thing things think third this those though thought three through thu thursday thursdays thus time tip title tls to
today today's todo toefl together told toml tomorrow tonight tons too took tool top total totally tough trace translate
tried true try trying ttl tty ttyl tue tues tuesday tui turn tv two type typically uat udp ugh ui uk's unauthorized
undefined under understand understood unfortunately unless unlike until up update updated updates updating upon uri url
urls us usage usb use used user users uses using usually utc utf uuid ux ux/ui value values verdict verified verify
very vi via view vii viii visit visited vm vms void vp vpn vs wait walk wanna want warn warning warrior was wash wasn't
watch watched way we we'd we'll we're we've weaknesses wed wednesday welcome well went were what what's whatever wheel
when whenever where whereas whether which whichever while who whoa whole whose why will winning wip with within without
woah won won't wonderful woo woohoo word words work worked working works worries worth would wow write write-up writing
wrong xi xii xml xss xxx y'all yagni yaml yay yeah year years yep yes yesterday yet yikes yo you you'd you'll you're
you've your yours yup yyyy zip
""")
"""Capitalised because a sentence, a heading or a log line begins, the calendar's words, and acronyms everybody uses."""

HEADINGS: Final = _words("""
abstract accept access account accounts achievements action actions active activity actor address adjust adjustments
admin advance advanced adverbs advice afternoon agenda aids air alert algorithm aloud amount analysis analytics answer
answers app appendix application applications approach approaches apps architecture area areas array art article artist
assessment asset assets attendees attention audience audit auth authentication author authorization availability
average award backend background backup balance bar baseline basics beach beef benefits bike bill binding birthday
board body bonus book books boss bottom boundaries box brand breakdown breakfast breaks bridge brief bring budget bug
bugs bus business button cache cake calculation calendar camera camp campaign capacity car card career case cases cat
category cause center central chain challenge challenges channel chapter chart chat checklist chicken child children
choice chunk city clarity class classes clay client clients clock closing cloud coach code codebase coding coffee
collection collections college color column comment comments committee communication community company comparison
compliance component components computer concept concerns concert concise configuration connection connections consider
consistency consistent console constraints construction consultant contact container content contents contract control
controller core correct cost costs council country course create credit cross culture current customer customers cycle
daily dance dashboard database dataset dead deadline deal debugging decision decisions deep deliverables delivery demo
department dependencies dependency deployment description design desktop detail developer developers development device
diet difference digital dinner direct direction director directory discussion display distractions distribution doc
docs documentation dog domain door draft dream dressing drink driver duration dynamic early earth east economic economy
editor edits education effect effective effectively effort email emails emergency emotional employee employees enabled
encoding encryption energy engine engineer engineering entitlement entry environment epic equipment estimate evening
event events evidence exam examples exchange exchanges execution exercise exists expected expense expenses experience
expert export external fact facts fall family fast feature features fee feedback field fields film final finance
financial findings fingerprint fire fitness flag flash flight flow flush focus folder food football form format formula
forum foundation framework free fresh friend friends front frontend fruit fuel fun functionality functions fund future
gain game games garden gate general gift girl glass global goal goals gold government grade grand grandma grandpa graph
greater green grey group groups growth guide guidelines guitar gym habit half hall hand handler handling hard hardware
header heading headings health heart heavy height highlights hiking hiring history hobby holiday home homepage hotel
hour hours house housing human idea ideas identify image images impact important improvement improvements income
incorporate index indoor industry influence information infrastructure ingredients inner insights inspection
installation instruction instructions insurance integration intent interface internal international internet interview
interviews inventory investment invoice island item items job journal journey judge kids kind kitchen knowledge lab
labor lack lake land language laptop layer layout lead leader leadership learning legal lesson lessons letter level
levels library life light limit limits link links literature living loan location logging logic login lore loss lunch
machine mail maintenance management manager market marketing master match material materials meal meals meaning measure
media meeting meetings member members memories memory mental menu merit messages metadata method methods metric metrics
middle migration milestone milestones mind minutes mobile mode model models modern module modules moment money monitor
monitoring monthly mood morning mother motivated mountain mouse movie museum music name names native nature needed
network news night noise normal north notebook notification notifications numbers object objective objectives objects
observations office online opening operation operations opinion optimization option optional orange order orders
organization original outcome outcomes outdoor outer outline outlook overview owner owners package packages page pages
painting panel paper parent parents park parking parser part parties partner parts party password path paths patient
pattern patterns payment payments peace peer peers people performance period permission permissions personal
perspective pet phase phone photo photos physical picture piece pizza plan planning plans platform player players plot
poem points policy politics pool popular popup portfolio position post posts potential power practice practices premium
preparation presentation president press price prices pricing pride primary principle principles print priorities
priority privacy private pro probability problem problems product production products professional profile program
programming programs progress project projects promise prompt proof proofread proper properties property proposal
protection protocol prototype provider public purpose quality quarter quarterly query queue quote race rain range rate
rates rating reader real reality reason reasons rebuild recipe record records recovery red reduce reference references
refine reflect reflection registration regularly regulations relationship relationships relevance reliability remote
rent reply report reporting reports repository representation requirements rescue research reservation resolution
resource resources respect response responsibilities restaurant resume retro retrospective revenue review reviews
revise revision reward rewards rewrite risk risks river road roadmap robust role roles rollup room root route router
routine rules runner salad salary sale sales sample scale scenes schedule scheduling schema school science scope score
screen screenshot script search season seat secondary secret secrets section sections secure security seek self
semantics senior sense series server servers service services session sessions setting settings setup shadow shape
share ship shipping shop short side sides sign signal signals signs silent simulation site situation size skill skills
sky sleep slide slides slug small smart snow social soft software solution solutions song songs sound source sources
south space spark spec special specific specification specifics speech speed sport sports spring sprint square stack
staff stage staging stakeholders standard standards standup star stars state statement states statistics stay stock
storage store story strategic strategies strategy stream street stress string structure student students studio study
style styling subject submit subscription success suggestion suggestions sun supply surface survey switch symptoms sync
syntax table tables target targets tea teacher teachers team teams technical technique techniques technology template
templates term terminal terms testing text thanksgiving theme theory therapy thread threads ticket tickets timeline
timeout times timestamp timestamps timing tips title token tokens tool tools topic topics touches tour town track
tracking tradition traffic trail training transaction transport travel tree trends trial trip troubleshooting trust
truth tutorial type types ui understand union unit units university updates upgrade usage useful user users utilize
vacation validation value van variable variables variety vegan verbs version versions vet video view village vision
visit visual voice volunteer vote wall war warm water weather web website wedding week weekend weekly weeks weight
welcome west white wife wildlife wind window winner winter wire woman women wonder wood word workflow workout workshop
workspace world writer yard yoga young zone
""")
"""Nouns that headings and labels capitalise: alone they name nothing."""
